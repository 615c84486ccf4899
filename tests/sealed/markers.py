"""Secrets to look for: those that are made up for servers, and the keys that seal them."""

import base64
import pathlib
import random
import string


class Markers:
    """Random texts to look for, also in base 64 and in hexadecimal digits."""

    def __init__(self):
        self.all = []
        self.keys = set()

    def new(self) -> str:
        letters = string.ascii_letters + string.digits
        self.all.append("".join(random.choices(letters, k=32)))
        return self.all[-1]

    def password(self) -> str:
        return f'pw "\\é {self.new()}'

    def user_data(self) -> str:
        pad = "#" * random.randrange(3)
        text = f"#cloud-config\n{pad}password: {self.new()}\n"
        return base64.b64encode(text.encode()).decode()

    @staticmethod
    def encodings(marker: str):
        """The marker as it is, in hexadecimal digits, and in base 64, also twice, at each position in a text."""
        raw = marker.encode()
        yield raw
        yield raw.hex().encode()
        yield raw.hex().upper().encode()
        for shift in range(3):
            coded = base64.b64encode(b"\0" * shift + raw + b"\0" * 3)
            # Only the characters that depend on nothing but the marker.
            inner = coded[4 if shift else 0 : (shift + len(raw)) // 3 * 4]
            yield inner
            yield inner.hex().encode()
            for again in range(3):
                twice = base64.b64encode(b"\0" * again + inner + b"\0" * 3)
                yield twice[4 if again else 0 : (again + len(inner)) // 3 * 4]

    def note_keys(self, file: pathlib.Path):
        self.keys |= {line for line in file.read_text().split("\n") if line and not line.startswith("#")}

    def needles(self):
        """Parts of twelve bytes of each encoding, so that one is found even if a file has only a piece of it."""
        encodings = [encoding for marker in self.all for encoding in self.encodings(marker)]
        for key in self.keys:
            raw = base64.b64decode(key)
            encodings += [key.encode(), raw, raw.hex().encode()]
        return {
            encoding[start : start + 12]
            for encoding in encodings
            for start in range(0, len(encoding) - 11, 6)
        }
