"""A small certificate authority for the tests, made with the program ``openssl``."""

import datetime
import pathlib
import shutil
import subprocess

CONFIG = """
[ca]
default_ca = here
[here]
dir = {folder}
database = $dir/index
new_certs_dir = $dir
serial = $dir/serial
crlnumber = $dir/crlnumber
certificate = $dir/ca.pem
private_key = $dir/ca.key
default_md = sha256
default_days = 90
default_crl_days = 30
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:false
extendedKeyUsage = serverAuth, clientAuth
keyUsage = critical, digitalSignature
"""


def openssl(*arguments: object) -> None:
    done = subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"openssl {arguments}: {done.stderr}")


def stamp(seconds: float) -> str:
    """A time so many seconds from now."""
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    return now.strftime("%Y%m%d%H%M%SZ")


class Identity:
    """A certificate file with its key file."""

    def __init__(self, certificate: pathlib.Path, key: pathlib.Path) -> None:
        self.certificate = certificate
        self.key = key

    def put(self, certificate: pathlib.Path, key: pathlib.Path) -> None:
        """Replace other files by these, the certificate first, as tools do."""
        for source, target in ((self.certificate, certificate), (self.key, key)):
            new = target.with_suffix(".new")
            shutil.copy(source, new)
            new.chmod(0o600)
            new.rename(target)


class Authority:
    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.config = self.folder / "config"
        self.config.write_text(CONFIG.format(folder=self.folder))
        (self.folder / "index").touch()
        (self.folder / "serial").write_text("1000\n")
        (self.folder / "crlnumber").write_text("1000\n")
        self.pem = self.folder / "ca.pem"
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", self.folder / "ca.key", "-out", self.pem, "-days", 90),
            *("-subj", f"/CN={name}", "-config", self.config, "-extensions", "authority"),
        )

    def issue(
        self, name: str, names: str, begins: float = -3600, ends: float = 30 * 86400, kind: str = "ec"
    ) -> Identity:
        """Issue a certificate. ``names`` are its subject alternative names, such as ``DNS:localhost,IP:127.0.0.1``."""
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        certificate = self.folder / f"{name}.pem"
        key_type = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256") if kind == "ec" else ("rsa:2048",)
        openssl(
            *("req", "-newkey", *key_type, "-nodes", "-keyout", key, "-out", request),
            *("-subj", f"/CN={name}", "-config", self.config, "-addext", f"subjectAltName={names}"),
        )
        openssl(
            *("ca", "-batch", "-config", self.config, "-in", request, "-out", certificate),
            *("-startdate", stamp(begins), "-enddate", stamp(ends), "-extensions", "leaf"),
            "-notext",
        )
        key.chmod(0o600)
        return Identity(certificate, key)

    def revoke(self, identity: Identity) -> str:
        """Revoke a certificate; gives the revocation list as PEM."""
        openssl("ca", "-config", self.config, "-revoke", identity.certificate)
        listed = self.folder / "list.pem"
        openssl("ca", "-config", self.config, "-gencrl", "-out", listed)
        return listed.read_text()
