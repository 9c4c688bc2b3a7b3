"""A connection to one of several schedulers, which is opened again whenever it is lost. node.py and session.py use it."""
import argparse
import asyncio
import json
import os
import random
import sys
import time

import websockets

# Version 14 of the package renamed this parameter. Debian 12 has version 10.
HEADERS = "additional_headers" if int(websockets.__version__.split(".")[0]) >= 14 else "extra_headers"

# How often at least the scheduler is asked to send a message. It is part of the first message of every connection, as keepalive_ms. When nothing
# comes for two and a half times as long, the instance hangs or is gone.
KEEPALIVE_MS = 1500

PING_TIMEOUT = 1011  # the package closes with this code when the scheduler does not answer its pings


class Refused(Exception):
    """The scheduler refuses the client, and would refuse the same again."""


def log(line):
    """Writes a line for people; standard output is for results."""
    print(line, file=sys.stderr, flush=True)


def command_line(description):
    """Returns a parser with the options of a connection. A mistake ends the program with code 2."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--url", action="append", help="a scheduler; repeat it for every instance (default: $LINGUA_URL or http://127.0.0.1:5010)")
    parser.add_argument("--token", help="the credential (default: $LINGUA_TOKEN); a scheduler without keys requires none")
    return parser


def run(program):
    """Runs a coroutine. An error ends the program with code 1."""
    try:
        asyncio.run(program)
    except (Refused, OSError) as error:
        sys.exit(str(error))
    except asyncio.CancelledError:
        pass  # the program has stopped itself
    except KeyboardInterrupt:
        sys.exit(130)


class Connection:
    """One connection. Iterate over it to receive: objects for text frames, bytes for binary ones."""

    def __init__(self):
        self.socket = None  # once it is open
        self.answered = False  # the first message was accepted
        self.promised = False  # messages come as often as they were asked for
        self.error = {}  # the error that the scheduler sent before it closed the connection
        self.leaving = None  # the task that closes the connection after go_away

    async def send(self, message):
        """Sends an object as JSON, or bytes as a binary frame. On a lost connection it is dropped: send it again after the next one."""
        try:
            await self.socket.send(message if isinstance(message, bytes) else json.dumps(message))
        except websockets.ConnectionClosed:
            pass  # messages that came before the end may still be unread

    async def __aiter__(self):
        while True:
            data = await self.receive()
            message = data if isinstance(data, bytes) else json.loads(data)
            if isinstance(message, bytes) or message["type"] != "error":
                self.answered = True
                self.promised |= not isinstance(message, bytes) and "keepalive_ms" in message
            elif message.get("fatal"):
                self.error = message
            yield message

    async def receive(self):
        """Returns the next message. Raises ConnectionClosed at the end, and TimeoutError when nothing comes any more.

        It counts half intervals: a single timeout would also run out while this program stood still. A scheduler that does not know
        keepalive_ms promises nothing; there the pings of the package have to do.
        """
        receiving = asyncio.ensure_future(self.socket.recv())
        silent = 0
        try:
            while silent < (5 if self.promised else 14):
                if (await asyncio.wait({receiving}, timeout=KEEPALIVE_MS / 2000))[0]:
                    return receiving.result()
                silent += 1 if self.promised or not self.answered else 0
            self.socket.transport.abort()  # a close would wait for an answer
            raise asyncio.TimeoutError("nothing arrives from the scheduler")
        finally:
            receiving.cancel()

    def move(self, go_away):
        """Answers go_away: leaves for another instance, at a random moment of the first half of the time that is left."""
        log(f"going to another instance: {go_away['reason']}")

        async def leave():
            await asyncio.sleep(random.uniform(0, go_away["reconnect_ms"] / 2000))
            await self.socket.close()
        self.leaving = asyncio.create_task(leave())


async def stay_connected(options, path, serve, restart=lambda code: False):
    """Calls serve with one connection after another until it returns.

    Raises Refused when the scheduler refuses the client and would refuse the same again. A close code of 44xx means that:
    then restart(code) may change what serve sends, and return True to connect again.
    """
    urls = [socket_url(url, path) for url in options.url or [os.environ.get("LINGUA_URL", "http://127.0.0.1:5010")]]
    token = options.token or os.environ.get("LINGUA_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    at, failures = random.randrange(len(urls)), 0  # at random, so that clients spread over the instances
    unanswered = False  # a connection was lost between its first message and the answer
    while True:
        connection, code, began = Connection(), None, time.monotonic()
        try:
            # An instance that hangs accepts connections, and answers nothing. The pings are for schedulers that do not know keepalive_ms.
            async with websockets.connect(urls[at], subprotocols=["lingua.v1"], open_timeout=3 if len(urls) > 1 else 10, ping_interval=10, ping_timeout=10,
                                          **{HEADERS: headers}) as connection.socket:
                await serve(connection)
                return
        except websockets.ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else closed.sent.code if closed.sent else 1006
            why = "{error}: {detail}".format(**connection.error) if connection.error else str(closed)
            final = 4400 <= code < 4500 or code in (1002, 1007)
        except (OSError, asyncio.TimeoutError, websockets.InvalidHandshake) as error:
            why = str(error) or "no answer"
            status = status_of(error)
            final = 400 <= status < 500 and status != 429
        if code == 4409 and unanswered:  # the message whose answer was lost arrived after this connection's: once more
            unanswered = final = False
        elif connection.socket and not connection.answered:
            unanswered = True
        if final and not restart(code):
            raise Refused(f"{urls[at]}: {why}")
        log(f"connecting again: {urls[at]}: {why}")
        failures = 0 if time.monotonic() - began > 5 else failures
        wait = connection.error.get("retry_after_ms", 0) / 1000 + random.uniform(0, min(5, 0.2 * 2 ** (failures // len(urls))))
        failures += 1
        # The instance that had the connection still has its audio: try it first, unless it stops or cannot be reached.
        if not connection.answered or connection.leaving or code in (None, 4503, PING_TIMEOUT):
            at = (at + 1) % len(urls)
        await asyncio.sleep(wait)


def socket_url(url, path):
    if not url.startswith(("http://", "https://", "ws://", "wss://")):
        raise SystemExit(f"{url}: not the URL of a scheduler, such as http://127.0.0.1:5010")
    return url.replace("http", "ws", 1).rstrip("/") + path


def status_of(error):
    """Returns the HTTP status with which an upgrade was refused, or 0. Its place depends on the version of the package."""
    return getattr(error, "status_code", 0) or getattr(getattr(error, "response", None), "status_code", 0)
