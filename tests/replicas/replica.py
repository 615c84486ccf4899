"""One replica of control: its configuration, its process, and whether it answers."""

import http.client
import pathlib
import subprocess

from layout import COMPUTE, CONTROL, HEALTH, PLACEMENT, SCHEDULER, Layout
from processes import Process


def configuration(
    layout: Layout,
    number: int,
    folder: pathlib.Path,
    store_url: str,
    is_replica: bool,
    further: str = "",
) -> str:
    """The text of a replica's configuration, with further sections. All replicas share the key of ``folder``."""
    address = layout.replica_address(number)

    def listen(service: int) -> str:
        return f'listen = "{address}:{layout.replica_port(number, service)}"'

    control = [listen(CONTROL)]
    if is_replica:
        control.append(f'replica_address = "{address}:{layout.replica_port(number, CONTROL)}"')
    # SQLite is given as the directory itself, which also has what belongs to this machine.
    directory = store_url.removeprefix("sqlite:")
    if directory == store_url:
        store = [f'path = "{folder}/replica-{number}-store"', f'url = "{store_url}"']
    else:
        store = [f'path = "{directory}"']
    sections = {
        "placement": [listen(PLACEMENT)],
        "scheduler": [listen(SCHEDULER)],
        "compute": [listen(COMPUTE)],
        "health": [listen(HEALTH)],
        "control": control,
        "store": store,
        "auth": ['strategy = "noauth2"'],
        "secrets": [f'key_file = "{folder}/secrets.key"'],
    }
    text = "".join(f"[{name}]\n" + "\n".join(lines) + "\n" for name, lines in sections.items())
    return text + (further or "[policy]\nenforce_new_defaults = false\n")


def make_key(program: pathlib.Path, folder: pathlib.Path) -> None:
    """The key that seals secrets, which all replicas have to share."""
    path = folder / "secrets.key"
    if not path.exists():
        command = [program, "secrets", "new-key", "--file", path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Replica:
    """A replica, its files below ``folder``."""

    def __init__(self, number: int, program: pathlib.Path, folder: pathlib.Path, layout: Layout) -> None:
        self.number = number
        self.layout = layout
        self.path = folder / f"replica-{number}.toml"
        # A link, so that the next start can be one of another program.
        link = folder / f"replica-{number}.program"
        link.unlink(missing_ok=True)
        link.symlink_to(program)
        command = [str(link), "control", "--config", str(self.path)]
        if layout.prefix:
            # Its network has nobody but this test.
            command.append("--i-know-this-is-open")
        inside = layout.inside(layout.replica_namespace(number), command)
        self.process = Process(f"replica-{number}", inside, folder)

    def answers(self) -> bool:
        """Whether all three services answer."""
        return all(self._answers(service) for service in (PLACEMENT, SCHEDULER, COMPUTE))

    def _answers(self, service: int) -> bool:
        address = self.layout.replica_address(self.number)
        port = self.layout.replica_port(self.number, service)
        connection = http.client.HTTPConnection(address, port, timeout=5)
        try:
            connection.request("GET", "/", headers={"connection": "close"})
            answer = connection.getresponse()
            answer.read()
            return answer.status < 500
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
