"""Certificates of clients."""

import ssl
import time

from authority import Identity
from site_tls import Control, Site, raw, refusal, trusting


def certificates(site: Site) -> None:
    """Client certificates: missing, wrong, expired, revoked, right"""
    own = site.ca.issue("agent", "DNS:agent.example,URI:placewright://agent/1")
    own_revoked = site.ca.issue("stolen", "DNS:stolen.example")
    expired = site.ca.issue("expired", "DNS:expired", begins=-200_000, ends=-100_000)
    foreign = site.other.issue("foreign", "DNS:foreign")
    site.clients.write_text(site.ca.pem.read_text() + site.ca.revoke(own_revoked))
    options = ("--placement-tls-client-ca", str(site.clients), "--placement-tls-client-certificates")
    wrong = {"expired": expired, "of another authority": foreign, "revoked": own_revoked}

    def why_refused(control: Control, identity: Identity | None) -> str:
        return refusal(control.port, trusting(site.ca, identity))

    with site.control(*options, "required", "--placement-tls-plain", "refuse") as control:
        site.check("required: a right one is let in", why_refused(control, own) == "", why_refused(control, own))
        site.check("required: none is refused", why_refused(control, None) != "")
        for name, identity in wrong.items():
            site.check(f"required: one that is {name} is refused", why_refused(control, identity) != "")
        log = control.log()
        site.check("the access log names the certificate", 'client_certificate="placewright://agent/1"' in log, log[-2000:])
        failures = control.metrics("tls_handshake_failures_total")
        reasons = ("no_client_certificate", "_expired", "_unknown_issuer", "_revoked")
        site.check("failures are counted by reason", all(any(one in labels for labels in failures) for one in reasons), failures)
    with site.control(*options, "optional") as control:
        site.check("optional: a right one is let in", why_refused(control, own) == "")
        site.check("optional: none is let in", why_refused(control, None) == "")
        for name, identity in wrong.items():
            site.check(f"optional: one that is {name} is refused", why_refused(control, identity) != "")
    site.clients.write_text(site.ca.pem.read_text())


def connect(control: Control, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSocket:
    sock = context.wrap_socket(raw(control.port, b""), server_hostname="localhost", session=session)
    sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    if not sock.recv(65536).startswith(b"HTTP/1.1 200"):
        raise ConnectionError("no answer")
    return sock


def resumed(site: Site) -> None:
    """Sessions are resumed, but not by clients that would not be let in any more"""
    options = ("--placement-tls-client-ca", str(site.clients), "--placement-tls-client-certificates", "required")
    site.clients.write_text(site.ca.pem.read_text())
    with site.control(*options) as control:
        brief = site.ca.issue("brief", "DNS:brief", ends=8)
        lasting = site.ca.issue("lasting", "DNS:lasting")
        contexts = {"brief": trusting(site.ca, brief), "lasting": trusting(site.ca, lasting)}
        for context in contexts.values():
            # A session that a client of TLS 1.2 keeps is good for any number of connections.
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        sessions = {}
        for name, context in contexts.items():
            with connect(control, context, None) as sock:
                sessions[name] = sock.session
            with connect(control, context, sessions[name]) as sock:
                site.check(f"a session is resumed ({name})", bool(sock.session_reused))
        time.sleep(9)
        why = ""
        try:
            connect(control, contexts["brief"], sessions["brief"]).close()
        except (ssl.SSLError, ConnectionError) as error:
            why = repr(error)
        site.check("not once the client's certificate has expired", why != "")
        site.clients.write_text(site.other.pem.read_text())
        control.hang_up()
        deadline = time.monotonic() + 10
        while "clients" not in why and time.monotonic() < deadline:
            try:
                connect(control, contexts["lasting"], sessions["lasting"]).close()
                time.sleep(0.1)
            except (ssl.SSLError, ConnectionError):
                why = "clients"
        site.check("nor once its authority is not trusted any more", why == "clients", control.log()[-2000:])
    site.clients.write_text(site.ca.pem.read_text())


CHECKS = {"clients": certificates, "resumed": resumed}
