"""A way to a listener that records every byte that goes to the client."""

import re
import socket
import threading


class Recorder:
    """Passes connections on to a port of this machine, until it is ended."""

    def __init__(self, port: int) -> None:
        self.target, self.lock = port, threading.Lock()
        self.sent: list[bytearray] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            record = bytearray()
            with self.lock:
                self.sent.append(record)
            threading.Thread(target=self.copy, args=(client, server, None), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, record), daemon=True).start()

    def copy(self, source: socket.socket, sink: socket.socket, record: bytearray | None) -> None:
        try:
            while piece := source.recv(65536):
                if record is not None:
                    with self.lock:
                        record += piece
                sink.sendall(piece)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self) -> None:
        self.listener.close()

    def text(self) -> str:
        """Everything that was sent, connection by connection, without the sizes of chunks."""
        with self.lock:
            parts = [bytes(record) for record in self.sent]
        whole = b"\n".join(parts).decode(errors="replace")
        return re.sub(r"\r\n[0-9a-f]+\r\n", "", whole) + whole
