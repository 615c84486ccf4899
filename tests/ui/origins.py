"""What the page's policy refuses to the page itself, and what pages of other origins can do with it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from caller import Caller

# Each does what injected markup or an injected script would do, and tells whether it had an effect.
TRIES = {
    "an inline script": ("script-src", "const one = document.createElement('script'); one.append('window.owned = 1'); document.body.append(one);"),
    "markup as a string": ("require-trusted-types-for", "document.querySelector('main').innerHTML = '<img src=x onerror=window.owned=1>';"),
    "text as code": ("script-src", "window.eval('window.owned = 1');"),
    "text as a function": ("script-src", "new Function('window.owned = 1')();"),
    "text as a timer": ("script-src", "setTimeout('window.owned = 1', 0);"),
    "a handler in an attribute": ("script-src-attr", "const one = document.createElement('a'); one.setAttribute('onclick', 'window.owned = 1'); document.body.append(one); one.click();"),
    "a script of another origin": ("script-src", "const one = document.createElement('script'); one.src = OTHER; document.body.append(one);"),
    "a request to another origin": ("connect-src", "fetch(OTHER).catch(() => {});"),
    "a picture of another origin": ("img-src", "new Image().src = OTHER;"),
    "a style of another origin": ("style-src", "const one = document.createElement('link'); one.rel = 'stylesheet'; one.href = OTHER; document.head.append(one);"),
    "an inline style": ("style-src", "const one = document.createElement('style'); one.append('body { display: none }'); document.head.append(one);"),
    "a frame": ("frame-src", "const one = document.createElement('iframe'); one.src = OTHER; document.body.append(one);"),
    "an object": ("object-src", "const one = document.createElement('object'); one.data = OTHER; document.body.append(one);"),
    "a form": ("form-action", "const one = document.createElement('form'); one.action = OTHER; document.body.append(one); one.submit();"),
    "another base": ("base-uri", "const one = document.createElement('base'); one.href = OTHER; document.head.append(one);"),
    "a worker": ("worker-src", "new Worker(URL.createObjectURL(new Blob(['1'])));"),
}

TRY = """const [refusals, done] = arguments;
const seen = [];
document.addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
// In a task of the page's own: what the driver runs by itself may use eval.
setTimeout(() => {
  try {
    %s
  } catch (error) {
    seen.push(`threw ${error.name}`);
  }
}, 0);
// A busy browser may tell of a refusal late, so wait 10 s for it, and then 200 ms for an effect in spite of it.
const started = performance.now();
const waiting = setInterval(() => {
  const refused = seen.some((found) => refusals.some((refusal) => found.startsWith(refusal)));
  if (!refused && performance.now() - started < 10000) return;
  clearInterval(waiting);
  setTimeout(() => done([seen, Boolean(window.owned), document.baseURI]), 200);
}, 20);"""

# What a page of another origin tries with the page and its API.
FOREIGN = """<!doctype html><title>foreign</title><body><script>
const page = PAGE;
const api = page + 'api/';
const tries = [];
const loaded = (tag, attribute, address) => new Promise((resolve) => {
  const one = document.createElement(tag);
  one.onload = () => resolve('loaded');
  one.onerror = () => resolve('refused');
  one[attribute] = address;
  document.body.append(one);
  setTimeout(() => resolve('nothing'), 10000);
});
const asked = (method, headers, mode, path, body) => fetch(api + path, { method, headers, mode, body, credentials: 'include' })
  .then((answer) => answer.text()).then((text) => text || 'opaque', () => 'refused');
const server = JSON.stringify({ server: { name: 'forged', flavorRef: 'S', networks: 'none' } });
globalThis.result = (async () => ({
  script: await loaded('script', 'src', page + 'main.js'),
  picture: await loaded('img', 'src', page + 'icon.svg'),
  read: await asked('GET', {}, 'cors', 'installation'),
  token: await asked('GET', { 'X-Auth-Token': TOKEN }, 'cors', 'session'),
  simple: await asked('POST', { 'Content-Type': 'text/plain' }, 'no-cors', 'compute/v2.1/servers', server),
  json: await asked('POST', { 'Content-Type': 'application/json', 'X-Auth-Token': TOKEN }, 'cors', 'compute/v2.1/servers', server),
  delete: await asked('DELETE', { 'X-Auth-Token': TOKEN }, 'cors', 'compute/v2.1/servers/' + VICTIM),
}))();
globalThis.submitted = () => new Promise((resolve) => {
  const frame = document.createElement('iframe');
  frame.name = 'sink';
  document.body.append(frame);
  const form = document.createElement('form');
  form.action = api + 'compute/v2.1/servers';
  form.method = 'post';
  form.enctype = 'text/plain';
  form.target = 'sink';
  const field = document.createElement('input');
  field.name = server;
  form.append(field);
  document.body.append(form);
  frame.onload = () => resolve('answered');
  form.submit();
  setTimeout(() => resolve('nothing'), 10000);
});
</script></body>"""


class Origins:
    def __init__(self, browser, site, data: dict, tally, raw) -> None:
        self.browser, self.site, self.data, self.tally, self.raw = browser, site, data, tally, raw
        self.operator = Caller(site, data["admin"])
        self.server, self.asked = None, []

    def run(self) -> None:
        self.serve()
        try:
            self.policy()
            self.foreign_page()
        finally:
            self.server.shutdown()
        self.no_ambient_rights()

    def serve(self) -> None:
        """Another origin, which notes what it is asked."""
        asked = self.asked
        text = FOREIGN.replace("PAGE", json.dumps(self.site.page)).replace("TOKEN", json.dumps(self.data["admin"]))
        text = text.replace("VICTIM", json.dumps(self.data["ids"]["db"]))

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802
                asked.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()
                self.wfile.write(text.encode() if self.path == "/foreign" else b"window.owned = 1")

            do_POST = do_GET

            def log_message(self, *_) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.other = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def policy(self) -> None:
        """Each of these would be the work of markup that was not escaped somewhere; the policy stops it all the same."""
        for name, (directive, script) in TRIES.items():
            self.browser.open(self.site.page)
            self.browser.until(lambda: self.browser.all("input[name=name]"))
            tried = script.replace("OTHER", json.dumps(f"{self.other}/from-the-page"))
            # A string where a script is expected is refused before it is looked at as a script.
            refusals = (directive.removesuffix("-attr"), "require-trusted-types-for", "threw")
            seen, owned, base = self.browser.driver.execute_async_script(TRY % tried, refusals)
            is_refused = any(found.startswith(refusals) for found in seen)
            ok = is_refused and not owned and self.other not in base and "/from-the-page" not in self.asked
            self.tally.check(f"the policy refuses {name}", ok, f"{directive}: {seen}, owned: {owned}, {base}, {self.asked}")
            self.asked.clear()

    def foreign_page(self) -> None:
        browser = self.browser
        before = self.servers()
        browser.open(f"{self.other}/foreign")
        result = browser.driver.execute_async_script("globalThis.result.then(arguments[0])")
        for what in ("script", "picture"):
            self.tally.check(f"another origin cannot load a {what} of the page", result[what] == "refused", str(result))
        for what in ("read", "token", "json", "delete"):
            self.tally.check(f"another origin reads nothing, and sends nothing with a header of its own: {what}", result[what] == "refused", str(result))
        self.tally.check("an opaque answer says nothing", result["simple"] in ("opaque", "refused"), str(result))
        browser.driver.execute_async_script("globalThis.submitted().then(arguments[0])")
        self.tally.check("what another origin sends changes nothing", self.servers() == before, f"{before} {self.servers()}")
        for tag in ("iframe", "object", "embed"):
            browser.open(f"{self.other}/foreign")
            browser.console()
            browser.run(
                """const [tag, page] = arguments;
                const one = document.createElement(tag);
                one[tag === 'object' ? 'data' : 'src'] = page;
                document.body.append(one);""",
                tag, self.site.page,
            )
            said = []

            def is_refused(said: list[str] = said) -> bool:
                said += browser.console()
                return any(part in line for line in said for part in ("frame-ancestors", "X-Frame-Options", "Refused"))

            self.tally.check(f"another origin cannot show the page in an {tag}", browser.until(is_refused), "\n".join(said))

    def servers(self) -> set[str]:
        return {row["id"] for row in self.operator.get("compute", "/v2.1/servers?all_tenants=1&limit=1000")["servers"]}

    def no_ambient_rights(self) -> None:
        """Nothing that a browser sends by itself gives rights: cookies, an address with a token, passwords of the browser."""
        token = self.data["admin"]
        for name, path, headers in (
            ("a cookie", "/ui/api/session", {"Cookie": f"X-Auth-Token={token}; token={token}"}),
            ("a parameter", f"/ui/api/session?token={token}&X-Auth-Token={token}", {}),
            ("a referrer", "/ui/api/session", {"Referer": self.site.page, "Origin": self.site.page.removesuffix("/ui/")}),
        ):
            status, _ = self.raw(path, headers)
            self.tally.check(f"{name} gives no rights", status == 401, str(status))
        for origin in ("cross-site", "same-site", "none", "SAME-ORIGIN", "same-origin, cross-site", ""):
            headers = {"X-Auth-Token": token, "Sec-Fetch-Site": origin}
            status, _ = self.raw("/ui/api/session", headers)
            self.tally.check(f"Sec-Fetch-Site {origin!r} is refused", status == 403, str(status))
        preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "DELETE", "Access-Control-Request-Headers": "x-auth-token"}
        for path in ("/ui/api/compute/v2.1/servers", "/ui/api/placement/resource_providers", "/ui/api/scheduler/v1/hosts", "/ui/api/fleet", "/ui/"):
            status, text = self.raw(path, preflight, "OPTIONS")
            self.tally.check(f"{path}: no leave for other origins", "access-control-allow" not in text.lower(), f"{status} {text}")
