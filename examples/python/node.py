#!/usr/bin/env python3
"""A node: it receives jobs from a scheduler, translates their audio, and sends the results. Replace translate by your models."""
import asyncio
import contextlib
import hashlib
import json
import random
import signal
import urllib.request

from connection import KEEPALIVE_MS, command_line, log, run, stay_connected


async def translate(audio, job):
    """Translates the audio of a job. This stand-in takes half a second and describes the audio that it received.

    job is the job_assign message: src_lang, tgt_lang, options and more. audio has the format of job["audio"]; it is empty for a job
    that was dispatched over HTTP, whose audio is wherever job["audio"]["ref"] says. Run models in a thread or a process and await
    them: this is cancelled when nobody needs the result any more, or the time for it is over.
    """
    await asyncio.sleep(0.5)
    text = f"{len(audio)} bytes of {job['src_lang']}, sha256 {hashlib.sha256(audio).hexdigest()[:8]}"
    return {"text_src": text, "text_tgt": text.upper()}


class Job:
    """A job that was received and whose outcome is not acknowledged."""

    def __init__(self, assignment):
        self.assignment, self.ids = assignment, ids(assignment)
        self.chunks = []  # audio from binary frames
        self.task = None  # the work, which begins when the audio is complete
        self.outcome = None  # job_result or job_fail


def ids(message):
    return {"job_id": message["job_id"], "attempt_id": message["attempt_id"]}


def key(message):
    return message["job_id"], message["attempt_id"]


class Node:
    def __init__(self, options):
        langs = options.langs.split(",")
        self.options = options
        self.declaration = {
            "keepalive_ms": KEEPALIVE_MS, "node_id": options.id, "max_concurrent_jobs": options.slots, "semantic_langs": langs,
            "nmt_pairs": [[source, target] for source in langs for target in langs if source != target],
        }
        self.jobs = {}  # by job_id and attempt_id
        self.ack = {"epoch": 0, "resume_token": ""}  # the last answer to a registration
        self.connection = None  # while the node is registered on it
        self.heartbeats = 0  # in this epoch
        self.wake = asyncio.Event()  # the next heartbeat should not wait
        self.drained = False  # by an operator: stay, and take nothing
        self.stopping = False

    async def run(self):
        self.main = asyncio.current_task()
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, self.stop)
        await stay_connected(self.options, "/ws/node", self.serve)

    def stop(self):
        """Takes no more jobs, finishes those that it has, and ends; called again, ends at once."""
        if self.stopping or not self.jobs:
            self.main.cancel()
        self.stopping = True
        self.wake.set()

    def state(self):
        """Returns what registrations and heartbeats both report."""
        active = [{**job.ids, "audio_chunks": len(job.chunks)} for job in self.jobs.values()]
        return {"health": "draining" if self.stopping else "ready", "active": active}

    async def serve(self, connection):
        """Uses one connection until it is lost."""
        await connection.send({"type": "node_register", **self.declaration, **self.state(), "resume_token": self.ack["resume_token"]})
        heartbeats = None
        try:
            async for message in connection:
                if isinstance(message, bytes):
                    self.receive_audio(message)
                elif message["type"] == "node_register_ack":
                    self.connection = connection
                    await self.registered(message)
                    heartbeats = heartbeats or asyncio.create_task(self.send_heartbeats(connection))
                elif message["type"] == "go_away":
                    connection.move(message)
                else:
                    await self.receive(message)
        except asyncio.CancelledError:  # stopped: jobs that are left go to other nodes
            await connection.send({"type": "node_leave"})
            raise
        finally:
            self.connection = None
            if heartbeats:
                heartbeats.cancel()

    async def registered(self, ack):
        """The node is registered, or continues after a lost connection. The scheduler may send this again by itself, with a new epoch."""
        log(f"{ack['status']} as {ack['node_id']}")
        if ack["epoch"] != self.ack["epoch"]:
            self.heartbeats = 0
        self.ack = ack
        self.drained = False  # otherwise a drain message follows
        for each in ack.get("cancel") or []:  # another node has it, or it has ended
            self.forget(each)
        for each in ack.get("no_audio") or []:
            job = self.jobs.get(key(each))
            if job and not job.task:
                job.outcome = {"type": "job_fail", "reason": "AUDIO_LOST"}
        for job in list(self.jobs.values()):
            await self.report(job, {"type": "job_ack"})  # the earlier one may be lost
        self.wake.set()  # a heartbeat, with the outcomes

    async def send_heartbeats(self, connection):
        """Sends heartbeats, and with each the outcomes that are not acknowledged."""
        while connection is self.connection:
            self.wake.clear()
            self.heartbeats += 1
            await connection.send({"type": "node_heartbeat", "epoch": self.ack["epoch"], "hb_seq": self.heartbeats, **self.state()})
            for job in list(self.jobs.values()):
                await self.report(job, job.outcome)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.wake.wait(), self.ack["heartbeat_interval_ms"] / 1000 * random.uniform(0.8, 1.2))

    async def receive(self, message):
        kind = message["type"]
        if kind == "job_assign":
            await self.assigned(message)
        elif kind == "job_result_ack":  # accepted or not, the job is over for this node
            if not message["accepted"]:
                log(f"job {message['job_id']}: the outcome is not accepted: {message.get('error')}")
            self.forget(message)
        elif kind == "job_cancel":
            log(f"job {message['job_id']}: cancelled")
            self.forget(message)
            await self.connection.send({"type": "job_cancelled", **ids(message)})
        elif kind == "drain":
            self.drained = message["drained"]
            log("drained" if self.drained else "no longer drained")
        elif kind in ("error", "warning") and not message.get("fatal"):
            log(f"{kind} {message.get('error') or message.get('code')}: {message['detail']}")

    async def assigned(self, message):
        if key(message) in self.jobs:  # it came twice: confirm it again, do it once
            return await self.report(self.jobs[key(message)], {"type": "job_ack"})
        if self.drained or self.stopping or sum(not job.outcome for job in self.jobs.values()) >= self.options.slots:
            return await self.connection.send({"type": "job_reject", **ids(message), "reason": "NODE_BUSY"})
        log(f"job {message['job_id']}: assigned")
        job = self.jobs[key(message)] = Job(message)
        await self.report(job, {"type": "job_ack"})
        if {"url", "ref"} & message.get("audio", {"ref": "none"}).keys():  # otherwise the audio follows in binary frames
            job.task = asyncio.create_task(self.work(job))

    def receive_audio(self, frame):
        """Receives a binary frame: the length of the header in four bytes, the header, audio. After a reconnect chunks may come again."""
        start = 4 + int.from_bytes(frame[:4], "big")
        header = json.loads(frame[4:start])
        job = self.jobs.get(key(header))
        if job and not job.task and not job.outcome and header["chunk"] == len(job.chunks):
            job.chunks.append(frame[start:])
            if header.get("last"):
                job.task = asyncio.create_task(self.work(job))

    async def work(self, job):
        """Does a job, sends its outcome, and keeps that until it is acknowledged."""
        reason = "AUDIO_LOST"
        try:
            audio, url = b"".join(job.chunks), job.assignment.get("audio", {}).get("url")
            if url:  # which holds its own permission: send no token with it
                audio = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=5).read())
            reason = "NODE_FAILED"
            result = await asyncio.wait_for(translate(audio, job.assignment), job.assignment["timeout_ms"] / 1000)
            job.outcome = {"type": "job_result", "result": result}
        except Exception as error:
            log(f"job {job.ids['job_id']}: {error!r}")
            job.outcome = {"type": "job_fail", "reason": "DEADLINE_EXCEEDED" if isinstance(error, asyncio.TimeoutError) else reason}
        await self.report(job, job.outcome)

    async def report(self, job, message):
        if message and self.connection:
            await self.connection.send({**message, **job.ids})

    def forget(self, message):
        job = self.jobs.pop(key(message), None)
        if job and job.task:
            job.task.cancel()
        if self.stopping and not self.jobs:
            self.main.cancel()


parser = command_line("A node: it does jobs. At SIGINT or SIGTERM it takes no more, finishes those that it has, and ends.")
parser.add_argument("--id", default="python-node", help="the name of the node, which stays the same when it restarts (default: python-node)")
parser.add_argument("--langs", default="en,es", help="the languages, each of which it translates into every other (default: en,es)")
parser.add_argument("--slots", type=int, default=4, help="how many jobs it does at once (default: 4)")
run(Node(parser.parse_args()).run())
