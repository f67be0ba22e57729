"""The model that the benches talk to: Chat Completions over HTTP/1.1 on this machine, with answers from a list or a function."""
import json, socket, threading, time


def event(delta, finish=None, usage=None):
    body = {"id": "x", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if usage:
        body["usage"] = usage
    return b"data: " + json.dumps(body).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def text_answer(text, piece):
    parts = [event({"role": "assistant", "content": text[i:i + piece]}) for i in range(0, len(text), piece)]
    return b"".join(parts) + event({}, "stop", {"prompt_tokens": 900, "completion_tokens": 20}) + DONE


def call_answer(n, name, arguments):
    call = {"index": 0, "id": f"call_{n}", "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)}}
    return (event({"role": "assistant", "tool_calls": [call]})
            + event({}, "tool_calls", {"prompt_tokens": 900, "completion_tokens": 20}) + DONE)


class Server:
    """`answer(n)` is what the n-th request gets: bytes, sent at once, or pieces, sent as they come.

    `began` is when the last answer began, `gaps` the seconds between the last byte of an answer and the first byte of the next
    request on that connection.
    """

    def __init__(self, answer):
        self.answer, self.asked, self.gaps, self.began = answer, 0, [], None
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def answered(self):
        """Called behind each answer."""

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data, sent = b"", None
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    more = connection.recv(1 << 20)
                    if sent and more:
                        self.gaps.append(time.perf_counter() - sent)
                        sent = None
                    if not more:
                        return
                    data += more
                head, rest = data.split(b"\r\n\r\n", 1)
                length = sum(int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length"))
                pieces, have = [rest], len(rest)
                while have < length:
                    pieces.append(connection.recv(1 << 20))
                    have += len(pieces[-1])
                data = b"".join(pieces)[length:]
                body = self.answer(self.asked)
                self.asked += 1
                self.send(connection, body)
                sent = time.perf_counter()
                self.answered()
        except OSError:
            return

    def send(self, connection, body):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        if isinstance(body, bytes):
            self.began = time.perf_counter()
            connection.sendall(head + b"content-length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
            return
        connection.sendall(head + b"transfer-encoding: chunked\r\n\r\n")
        self.began = time.perf_counter()
        for piece in body:
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")
