#!/usr/bin/env python3
"""A node of the scheduler that the design documents describe, in their words: it declares languages, services and load by their names, sends a heartbeat
every 30 s, and reports its jobs over HTTP. Where they are silent (the path of the WebSocket, the message with a job) it uses docs/migration.md.
A scheduler with keys needs auth.require_node_secret = false: the node does not show the secret of its registration."""
import argparse
import asyncio
import json
import os
import sys
import urllib.request

import websockets

HEARTBEAT_SECONDS = 30

# Version 14 of the package renamed this parameter. Debian 12 has version 10.
HEADERS = "additional_headers" if int(websockets.__version__.split(".")[0]) >= 14 else "extra_headers"


def log(line):
    print(line, file=sys.stderr, flush=True)


class Node:
    def __init__(self, options):
        self.url, self.node_id, self.langs = options.url.rstrip("/"), options.id, options.langs.split(",")
        token = options.token or os.environ.get("LINGUA_TOKEN")
        self.headers = {"Authorization": "Bearer " + token} if token else {}
        self.current_jobs = 0

    def declaration(self):
        """What a registration and a heartbeat both say."""
        return {
            "node_id": self.node_id,
            "language_capabilities": {"asr_langs": self.langs, "semantic_langs": self.langs},
            "capability_by_type": {"asr": "true", "nmt": "true", "tts": "false", "tone": "false", "semantic": "true"},
            "installed_services": [{"service_id": name, "type": name} for name in ("asr", "nmt", "semantic")],
            "cpu_usage": 100 * min(1, os.getloadavg()[0] / os.cpu_count()), "gpu_usage": -1, "mem_usage": -1, "current_jobs": self.current_jobs,
        }

    async def run(self):
        """Connects, and again whenever the connection is lost."""
        while True:
            try:
                await self.serve()
            except (OSError, websockets.WebSocketException, asyncio.TimeoutError) as error:
                log(f"connecting again: {error}")
            await asyncio.sleep(0.5)

    async def serve(self):
        async with websockets.connect(self.url.replace("http", "ws", 1) + "/ws/node", **{HEADERS: self.headers}) as connection:
            await connection.send(json.dumps({"type": "node_register", **self.declaration()}))
            beats, jobs = asyncio.create_task(self.send_heartbeats(connection)), set()
            try:
                async for frame in connection:
                    if isinstance(frame, bytes):
                        continue  # audio of a session, of which the documents say nothing
                    message = json.loads(frame)
                    if message["type"] == "node_register_ack":
                        log(f"registered as {message['node_id']}; warnings: {message.get('warnings', [])}")
                    elif message["type"] == "job_assign":
                        job = asyncio.create_task(self.work(message))
                        jobs.add(job)
                        job.add_done_callback(jobs.discard)
                    elif message["type"] == "error":
                        log(f"error: {message}")
            finally:
                beats.cancel()

    async def send_heartbeats(self, connection):
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await connection.send(json.dumps({"type": "node_heartbeat", **self.declaration()}))

    async def work(self, job):
        """Acknowledges a job, translates, and reports the result."""
        self.current_jobs += 1
        try:
            await self.report("ack", job)
            text = f"{job['src_lang']} to {job['tgt_lang']}"
            await asyncio.sleep(0.2)  # in place of the models
            await self.report("done", job, status="ok", result={"text_src": text, "text_tgt": text.upper()})
            log(f"{job['job_id']}: done")
        except OSError as error:
            log(f"{job['job_id']}: {error}")
        finally:
            self.current_jobs -= 1

    async def report(self, what, job, **more):
        body = {"job_id": job["job_id"], "attempt_id": job["attempt_id"], "node_id": self.node_id, **more}
        request = urllib.request.Request(
            f"{self.url}/v1/job/{what}", json.dumps(body).encode(), {"Content-Type": "application/json", **self.headers}, method="POST")
        await asyncio.to_thread(urllib.request.urlopen, request, timeout=5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A node as the design documents of an earlier scheduler describe it.")
    parser.add_argument("--url", default=os.environ.get("LINGUA_URL", "http://127.0.0.1:5010"), help="the scheduler (default: $LINGUA_URL or %(default)s)")
    parser.add_argument("--token", help="the credential (default: $LINGUA_TOKEN); a scheduler without keys requires none")
    parser.add_argument("--id", default="existing-node", help="the name of the node (default: %(default)s)")
    parser.add_argument("--langs", default="en,es", help="its languages (default: %(default)s)")
    try:
        asyncio.run(Node(parser.parse_args()).run())
    except KeyboardInterrupt:
        sys.exit(130)
