#!/usr/bin/env python3
"""A session: it sends audio at the pace of speech and prints the result of every utterance as one line of JSON."""
import array
import asyncio
import base64
import json
import math
import secrets
import time
import wave

from connection import KEEPALIVE_MS, command_line, log, run, stay_connected

FRAME_MS = 100


class Session:
    def __init__(self, options, recordings, rate):
        self.options, self.recordings = options, recordings
        self.frame_bytes = rate * FRAME_MS // 1000 * 2  # whole samples
        self.start = {
            "type": "session_start", "langs": [options.source, options.target], "segmentation": {"mode": options.mode},
            "audio": {"encoding": "pcm_s16le", "sample_rate": rate, "framing": "numbered"}, "keepalive_ms": KEEPALIVE_MS,
        }
        self.printed = 0
        self.kept = []  # audio frames whose utterance has not ended: the scheduler may ask for them again
        self.captured = False  # there is no more audio to come
        self.reset()

    def reset(self):
        """Forgets the session at the scheduler, and keeps the audio that has no result."""
        self.id = None
        # A secret of our own makes session_start repeatable: if its answer is lost, the repeated one gets the same session.
        self.start["resume_token"] = secrets.token_hex(16)
        self.first = self.next = 1  # the numbers of the first frame that is kept and of the next one to send
        self.last_seq = 0  # of the terminal messages that were received
        self.next_index = 0  # of the next utterance to end
        self.budget = 0  # seconds of audio that may be sent now; real time adds to it, every frame takes from it
        self.paced = 0  # when the budget was brought up to date

    async def run(self):
        capture = asyncio.create_task(self.capture())
        await stay_connected(self.options, "/ws/session", self.serve, self.restart)
        capture.cancel()

    async def capture(self):
        """Delivers the audio as a microphone would: in real time, whether or not there is a connection."""
        due = time.monotonic()
        for audio in self.recordings:
            for at in range(0, len(audio), self.frame_bytes):
                await asyncio.sleep(due - time.monotonic())
                end = at + self.frame_bytes
                self.kept.append((audio[at:end], end >= len(audio) and self.options.mode == "manual"))
                due += FRAME_MS / 1000
        self.captured = True

    def restart(self, code):
        """The scheduler does not know the session any more (4404): starts another with all audio that has no result."""
        if code != 4404 or not self.id:
            return False
        log(f"session {self.id} is lost: starting another")
        self.reset()
        return True

    async def serve(self, connection):
        """Uses one connection. Returns when the session has ended."""
        if self.id:
            await connection.send({
                "type": "session_resume", "session_id": self.id, "resume_token": self.start["resume_token"], "last_seq": self.last_seq,
                "keepalive_ms": KEEPALIVE_MS,
            })
        else:
            await connection.send(self.start)
        sender = None
        try:
            async for message in connection:
                if isinstance(message, bytes):
                    continue  # speech comes only if session_start asks for it
                if message["type"] in ("session_started", "session_resumed"):
                    self.begin(message)
                    sender = asyncio.create_task(self.send_audio(connection))
                elif message["type"] == "session_ended":
                    return
                else:
                    await self.receive(connection, message)
        finally:
            if sender:
                sender.cancel()

    def begin(self, message):
        if message["type"] == "session_started":
            log(f"session {message['session_id']} has started")
            self.id = message["session_id"]
            self.budget = message["limits"]["buffered_ms"] / 2000
            self.paced = time.monotonic()
            return
        log(f"session {message['session_id']} goes on at audio frame {message['next_audio_seq']}")
        again = max(self.first, message["next_audio_seq"])  # ended utterances may be left out
        self.budget += (self.next - again) * FRAME_MS / 1000  # what is sent again is not ahead of real time
        self.next = again

    async def receive(self, connection, message):
        kind = message["type"]
        if kind == "result":
            await self.ended(connection, message, {"text_src": message.get("text_src"), "text_tgt": message.get("text_tgt")})
        elif kind == "error" and "utterance_index" in message:
            await self.ended(connection, message, {"error": message["error"], "reason": message.get("reason"), "detail": message["detail"]})
        elif kind in ("error", "warning") and not message.get("fatal"):
            log(f"{kind} {message.get('error') or message.get('code')}: {message['detail']}")
        elif kind == "go_away":
            connection.move(message)

    async def ended(self, connection, message, outcome):
        """An utterance has ended with a result or an error. They come in order, each once; its audio is not needed any more."""
        if message["seq"] <= self.last_seq:
            return
        self.last_seq = message["seq"]
        lost = message["utterance_index"] - self.next_index  # a resume was not recovered
        for each in [{"error": "RESULT_LOST"}] * lost + [outcome]:
            print(json.dumps({"utterance": self.printed, **each}, ensure_ascii=False), flush=True)
            self.printed += 1
        self.next_index = message["utterance_index"] + 1
        del self.kept[:message["last_seq"] + 1 - self.first]
        self.first = message["last_seq"] + 1
        self.next = max(self.next, self.first)
        await connection.send({"type": "result_ack", "seq": self.last_seq})

    async def send_audio(self, connection):
        """Sends audio when it is due, and session_end after the last of it."""
        while not self.captured or self.next < self.first + len(self.kept):
            now = time.monotonic()
            self.budget += now - self.paced  # after a cut also the time without a connection
            self.paced = now
            while self.next < self.first + len(self.kept) and self.budget * 1000 >= FRAME_MS:
                audio, is_final = self.kept[self.next - self.first]
                if is_final:
                    frame = {"type": "audio_chunk", "seq": self.next, "data": base64.b64encode(audio).decode(), "is_final": True}
                else:
                    frame = self.next.to_bytes(8, "big") + audio
                self.next += 1
                self.budget -= FRAME_MS / 1000
                await connection.send(frame)
            await asyncio.sleep(FRAME_MS / 2000)
        await connection.send({"type": "session_end"})


def read_audio(file, rate):
    """Returns the samples of a file and their rate."""
    with open(file, "rb") as opened:
        if opened.read(4) != b"RIFF":
            opened.seek(0)
            audio = opened.read()
            return audio[:len(audio) // 2 * 2], rate
    try:
        with wave.open(file) as opened:
            if opened.getsampwidth() == 2 and opened.getnchannels() == 1:
                return opened.readframes(opened.getnframes()), opened.getframerate()
    except (wave.Error, EOFError):
        pass
    raise SystemExit(f"{file}: not a WAV file with PCM of 16 bits, mono")


def tone(rate):
    """Returns three seconds of a tone."""
    return array.array("h", (int(8000 * math.sin(2 * math.pi * 440 * i / rate)) for i in range(3 * rate))).tobytes(), rate


async def main():
    parser = command_line("A session: sends audio at the pace of speech and prints the results.")
    parser.add_argument("--from", dest="source", default="en", metavar="LANG", help="the language of the audio (default: en)")
    parser.add_argument("--to", dest="target", default="es", metavar="LANG", help="the language of the translation (default: es)")
    parser.add_argument("--mode", choices=("auto", "manual"), default="auto",
                        help="what ends an utterance: auto, a pause in the audio (default); manual, the end of a file")
    parser.add_argument("--rate", type=int, default=16000, help="the samples per second of raw PCM (default: 16000)")
    parser.add_argument("files", nargs="*", metavar="FILE", help="a WAV file (PCM of 16 bits, mono) or raw PCM of the same kind; without one a tone is sent")
    options = parser.parse_args()
    recordings = [read_audio(file, options.rate) for file in options.files] or [tone(options.rate)]
    rates = {rate for _, rate in recordings}
    if len(rates) > 1:
        raise SystemExit(f"the files have different sample rates: {', '.join(map(str, rates))}")
    rate = rates.pop()
    if not 8000 <= rate <= 48000:
        raise SystemExit(f"the sample rate is {rate}; it must be from 8000 to 48000")
    await Session(options, [audio for audio, _ in recordings], rate).run()


run(main())
