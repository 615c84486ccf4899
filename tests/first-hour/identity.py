"""Every identity command of the openstack client against `placewright up`, with the clouds.yaml as written.

What the commands print is compared with what they should have done.  The last line is "N passed, N failed".
"""

import argparse
import stat
import sys

import installation
from installation import Installation, Outcome

sys.path.insert(0, str(installation.launch.TESTS / "lib"))
from tally import Tally  # noqa: E402


class Walk:
    """The commands, one after the other."""

    def __init__(self, cloud: Installation, tally: Tally) -> None:
        self.cloud = cloud
        self.tally = tally

    def run(self, *words: str, expect: bool = True, **more: str) -> Outcome:
        outcome = self.cloud.openstack(*words, **more)
        who = f" as {more['cloud']}" if more.get("cloud") else ""
        how = "" if expect else " is refused"
        self.tally.check(f"{outcome.name}{who}{how}", outcome.ok == expect, outcome.text + outcome.errors)
        return outcome

    def value(self, *words: str, **more: str) -> object:
        outcome = self.run(*words, "-f", "json", **more)
        return outcome.json if outcome.ok else {}

    def names(self, *words: str, column: str = "Name", **more: str) -> set[str]:
        rows = self.value(*words, **more)
        return {row[column] for row in rows} if isinstance(rows, list) else set()

    def check(self, what: str, ok: bool, detail: object = "") -> None:
        self.tally.check(what, ok, str(detail))

    def file(self) -> None:
        mode = stat.S_IMODE(self.cloud.clouds.stat().st_mode)
        self.check("clouds.yaml is its owner's alone", mode == 0o600, oct(mode))

    def tokens(self) -> None:
        token = self.value("token", "issue")
        self.check("a token has a project", bool(token.get("project_id")), token)
        self.run("token", "issue", cloud="demo")
        words = ["--os-auth-type", "password", "--os-auth-url", self.cloud.auth_url, "--os-username", "admin"]
        words += ["--os-password", self.cloud.password("placewright"), "--os-user-domain-name", "Default"]
        # Without a cloud, because that has a project, and a token has one scope.
        self.run(*words, "--os-system-scope", "all", "token", "issue", cloud="")
        self.run("token", "revoke", str(token["id"]))
        types = self.names("catalog", "list", column="Type")
        self.check("the catalog has the services", {"identity", "compute", "placement"} <= types, types)
        self.run("catalog", "show", "compute")

    def projects(self) -> None:
        names = self.names("project", "list")
        self.check("the first projects are there", {"admin", "demo", "service"} <= names, names)
        self.run("project", "create", "--description", "a colour", "blue")
        self.run("project", "create", "blue", expect=False)
        self.run("project", "create", "--or-show", "blue")
        shown = self.value("project", "show", "blue")
        self.check("a project is as it was made", shown.get("description") == "a colour", shown)
        self.run("project", "set", "--description", "a feeling", "--tag", "a", "blue")
        shown = self.value("project", "show", "blue")
        self.check("a project is as it was set", shown.get("description") == "a feeling", shown)
        self.run("project", "list", "--long")
        self.run("project", "list", "--my-projects", cloud="demo")
        own = self.names("project", "list", cloud="demo")
        self.check("a user who is no administrator sees its own projects", own == {"demo"}, own)
        self.run("project", "create", "red", expect=False, cloud="demo")

    def users(self) -> None:
        self.run("user", "create", "--project", "blue", "--password", "first", "--email", "a@example.org", "ada")
        self.run("user", "create", "--password", "x", "ada", expect=False)
        names = self.names("user", "list")
        self.check("users are listed", {"admin", "demo", "ada"} <= names, names)
        self.run("user", "list", "--long")
        self.run("user", "show", "ada")
        self.run("user", "set", "--description", "who counts", "ada")
        shown = self.value("user", "show", "ada")
        self.check("a user is as it was set", shown.get("description") == "who counts", shown)
        self.run("user", "show", "demo", cloud="demo")
        self.run("user", "list", expect=False, cloud="demo")

    def roles(self) -> None:
        names = self.names("role", "list")
        self.check("the first roles are there", {"admin", "member", "reader", "service"} <= names, names)
        self.run("role", "create", "painter")
        self.run("role", "show", "painter")
        self.run("role", "set", "--name", "artist", "painter")
        self.run("role", "add", "--user", "ada", "--project", "blue", "member")
        self.run("role", "add", "--user", "ada", "--project", "blue", "artist")
        rows = self.value("role", "assignment", "list", "--user", "ada", "--names")
        roles = {row["Role"] for row in rows}
        self.check("both roles are assigned", roles == {"member", "artist"}, rows)
        self.run("role", "assignment", "list")
        self.run("role", "assignment", "list", "--project", "blue")
        self.run("role", "assignment", "list", "--user", "ada", "--effective", "--names")
        self.run("user", "list", "--project", "blue")
        self.sign_in("first", True)
        self.run("role", "remove", "--user", "ada", "--project", "blue", "artist")
        self.run("role", "delete", "artist")
        self.run("role", "delete", "admin", expect=False)
        self.run("implied", "role", "list")

    def sign_in(self, password: str, expect: bool) -> None:
        words = ["--os-username", "ada", "--os-password", password, "--os-project-name", "blue"]
        self.run(*words, "token", "issue", expect=expect)

    def passwords(self) -> None:
        self.sign_in("wrong", False)
        self.run("user", "set", "--password", "second", "ada")
        self.sign_in("first", False)
        self.sign_in("second", True)
        words = ["--os-username", "ada", "--os-password", "second", "--os-project-name", "blue"]
        own = ["user", "password", "set", "--original-password", "second", "--password", "third"]
        self.run(*words, *own)
        self.sign_in("third", True)
        self.run("user", "set", "--disable", "ada")
        self.sign_in("third", False)
        self.run("user", "set", "--enable", "ada")
        self.sign_in("third", True)

    def application_credentials(self) -> None:
        made = self.value("application", "credential", "create", "--role", "member", "robot", cloud="demo")
        self.run("application", "credential", "list", cloud="demo")
        self.run("application", "credential", "show", "robot", cloud="demo")
        words = ["--os-auth-type", "v3applicationcredential", "--os-auth-url", self.cloud.auth_url]
        words += ["--os-application-credential-id", str(made.get("id", made.get("ID")))]
        words += ["--os-application-credential-secret", str(made.get("secret", made.get("Secret")))]
        # Without a cloud: a program has the credential and nothing else.
        self.run(*words, "token", "issue", cloud="")
        self.run(*words, "server", "list", cloud="")
        self.run(*words, "application", "credential", "create", "child", expect=False, cloud="")
        self.run("application", "credential", "delete", "robot", cloud="demo")
        self.run(*words, "token", "issue", expect=False, cloud="")

    def others(self) -> None:
        for words in (
            ["domain", "list"],
            ["domain", "show", "default"],
            ["endpoint", "list"],
            ["endpoint", "list", "--service", "compute"],
            ["service", "list"],
            ["service", "show", "compute"],
            ["region", "list"],
            ["flavor", "list"],
            ["flavor", "create", "--id", "small", "--vcpus", "1", "--ram", "512", "--disk", "1", "small"],
            ["server", "list"],
            ["server", "list", "--all-projects", "--long"],
            ["hypervisor", "list"],
            ["compute", "service", "list"],
            ["availability", "zone", "list", "--compute"],
            ["resource", "provider", "list"],
            ["resource", "class", "list"],
            ["limits", "show", "--absolute"],
        ):
            self.run(*words)
        self.run("server", "list", cloud="demo")
        self.run("resource", "provider", "list", expect=False, cloud="demo")

    def clean(self) -> None:
        self.run("user", "delete", "ada")
        self.run("project", "delete", "blue")
        self.run("project", "show", "blue", expect=False)

    def again(self) -> None:
        """The passwords hold after a restart, and on another port."""
        self.cloud.stop()
        before = self.cloud.auth_url
        old = self.cloud.ports["identity"]
        self.cloud.ports["identity"] = installation.free_port()
        swap = {f"127.0.0.1:{old}": f"127.0.0.1:{self.cloud.ports['identity']}"}
        self.cloud.words = [swap.get(word, word) for word in self.cloud.words]
        self.cloud.start()
        self.check("the address in clouds.yaml is the new one", before not in self.cloud.clouds.read_text())
        self.file()
        self.run("token", "issue")
        self.run("server", "list", cloud="demo")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    tally = Tally()
    with installation.running("first-hour") as cloud:
        walk = Walk(cloud, tally)
        for part in (
            walk.file, walk.tokens, walk.projects, walk.users, walk.roles, walk.passwords,
            walk.application_credentials, walk.others, walk.clean, walk.again,
        ):
            part()
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
