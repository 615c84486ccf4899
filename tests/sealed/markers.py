"""Secrets to look for: what is made up for servers, and the keys that seal it."""

import base64
import pathlib
import random
import string


class Markers:
    """Random texts to look for, and what else each of them looks like."""

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
    def forms(marker: str):
        raw = marker.encode()
        yield raw
        yield raw.hex().encode()
        yield raw.hex().upper().encode()
        for shift in range(3):
            coded = base64.b64encode(b"\0" * shift + raw + b"\0" * 3)
            # Only what depends on the marker alone.
            inner = coded[4 if shift else 0 : (shift + len(raw)) // 3 * 4]
            yield inner
            yield inner.hex().encode()
            for again in range(3):
                twice = base64.b64encode(b"\0" * again + inner + b"\0" * 3)
                yield twice[4 if again else 0 : (again + len(inner)) // 3 * 4]

    def note_keys(self, file: pathlib.Path):
        self.keys |= {line for line in file.read_text().split("\n") if line and not line.startswith("#")}

    def needles(self):
        """Twelve bytes of each form find it, wherever a file cuts it."""
        forms = [form for marker in self.all for form in self.forms(marker)]
        for key in self.keys:
            raw = base64.b64decode(key)
            forms += [key.encode(), raw, raw.hex().encode()]
        return {form[at : at + 12] for form in forms for at in range(0, len(form) - 11, 6)}
