"""Run the test files, several at a time, each in a process of its own.

A worker process starts the server, loads the fixture's data, runs the tests
and stops the server; it sends what it finds to the parent over a pipe. The
parent only waits, with a deadline for each worker and one for the whole run.
"""

import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
from multiprocessing import connection

from harness import api
from harness import fixtures
from harness import gabbirun

import ports
import servers

# If none of this many servers came up, there is no point in starting others.
GIVE_UP_AFTER = 3


class Stopped(KeyboardInterrupt):
    """SIGTERM; not an Exception, so that no test can swallow it."""


def _on_sigterm(signum, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped()


class FileRun:
    """What is known about one test file and, later, its outcome."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)
        self.fixture = gabbirun.fixture_of(path)
        self.profile = fixtures.profile_of(self.fixture)
        self.planned = gabbirun.tests_in(path)
        self.tests = []
        self.error = ""
        self.log_tail = ""
        self.seconds = 0.0
        self.started = False
        self.tried = True

    def count(self, outcome):
        return sum(t["outcome"] == outcome for t in self.tests)

    @property
    def ok(self):
        return not self.count(gabbirun.FAILED)

    def fail_missing_tests(self):
        """Count every test without an outcome as failed."""
        missing = self.planned[len(self.tests) :]
        why = self.error or "the run of this file ended early"
        for test in missing:
            method, url = method_and_url(test)
            self.tests.append(
                {
                    "name": test["name"],
                    "method": method,
                    "url": url,
                    "outcome": gabbirun.FAILED,
                    "expected": "",
                    "got": "not run",
                    "detail": why,
                    "body": "",
                    "not_run": True,
                }
            )


def method_and_url(test):
    for key, value in test.items():
        if key.isupper():
            return key, value
    return test.get("method", "GET"), test.get("url", "")


def _work(run, options, port, state_dir, log_path, pipe):
    """The worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _on_sigterm)
    servers.die_with_parent(signal.SIGTERM)
    if os.getppid() != options.parent:
        os._exit(1)
    under_test = None
    try:
        if options.url:
            base_url = options.url
        else:
            base_url = "http://127.0.0.1:%d" % port
            under_test = servers.Server(
                servers.fill_in(
                    options.server_cmd,
                    {"port": port, "dir": state_dir, "profile": run.profile},
                ),
                port,
                log_path,
                options.start_timeout,
                options.stop_timeout,
            )
            under_test.start()
        pipe.send(("started", None))
        client = api.Api(base_url, timeout=options.request_timeout)
        try:
            _must_be_empty(client)
            env = fixtures.load(run.fixture, client, options.seed, run.name)
        finally:
            client.close()
        gabbirun.run_file(
            run.path,
            base_url,
            env,
            options.request_timeout,
            options.strict,
            lambda record: pipe.send(("test", record)),
        )
    except servers.ServerError as exc:
        pipe.send(("error", "the server did not start: %s" % exc))
    except api.FixtureError as exc:
        pipe.send(("error", "the fixture's data could not be made: %s" % exc))
    except Stopped:
        pass
    except Exception:
        pipe.send(("error", traceback.format_exc()))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if under_test is not None:
            ended = under_test.ended_by_itself()
            under_test.stop()
            tail = under_test.log_tail()
            if ended:
                tail += "\n(the server %s)" % ended
            try:
                pipe.send(("log", tail))
            except OSError:
                pass  # the parent is gone
        pipe.close()


def _must_be_empty(client):
    """Refuse a server that has providers already, if it can tell."""
    try:
        found = client("GET", "/resource_providers", version="1.0")
    except api.FixtureError:
        return
    if found and found.get("resource_providers"):
        raise api.FixtureError(
            "the server has resource providers already; " "it must start empty"
        )


class _Worker:
    def __init__(self, run, options, port, base_dir):
        self.run = run
        self.began = time.monotonic()
        self.deadline = self.began + options.file_timeout
        self.asked_to_stop = False
        state_dir = os.path.join(base_dir, run.name, "state")
        os.makedirs(state_dir)
        log_path = os.path.join(base_dir, run.name, "server.log")
        self.pipe, worker_end = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_work, args=(run, options, port, state_dir, log_path, worker_end)
        )
        self.process.start()
        worker_end.close()

    def read(self):
        """Take what the worker sent; False when it has closed the pipe."""
        run = self.run
        try:
            while self.pipe.poll():
                kind, value = self.pipe.recv()
                if kind == "test":
                    run.tests.append(value)
                elif kind == "started":
                    run.started = True
                elif kind == "error":
                    run.error = run.error or value
                elif kind == "log":
                    run.log_tail = value
        except (EOFError, OSError, pickle.UnpicklingError):
            return False  # closed, or torn in the middle of a message
        return True

    def finish(self, grace):
        """Read what the worker still sends; kill it if it does not end in time."""
        end = time.monotonic() + grace
        while self.read() and time.monotonic() < end:
            connection.wait([self.pipe], timeout=0.2)
        self.process.join(max(0.1, end - time.monotonic()))
        if self.process.is_alive():
            self.process.kill()
            self.process.join(10)
        self.pipe.close()
        self.run.seconds = time.monotonic() - self.began
        self.run.fail_missing_tests()

    def stop(self, why, grace):
        """Make the worker stop its server and end."""
        self.run.error = self.run.error or why
        self.asked_to_stop = True
        self.deadline = time.monotonic() + grace
        if self.process.is_alive():
            self.process.terminate()


context = multiprocessing.get_context("fork")


def _ports(base, many=5000):
    """Ports that nobody listens on, each given out once; without a base, such as no other test gets meanwhile."""
    while base is None:
        yield ports.free_port()
    for port in range(base, base + many):
        if servers.port_is_free(port):
            yield port
    raise SystemExit("no free port from %d to %d" % (base, base + many))


def run_all(runs, options, on_done):
    """Run all files; ``on_done`` is called with each FileRun when it ends."""
    options.parent = os.getpid()
    signal.signal(signal.SIGTERM, _on_sigterm)
    base_dir = tempfile.mkdtemp(prefix="placement-conformance-")
    free_ports = _ports(options.port_base)
    end = time.monotonic() + options.total_timeout
    # Time for a worker to stop its server, then to be killed itself.
    grace = options.stop_timeout + 12
    # The longest files first, so that no worker is left alone at the end.
    queue = sorted(runs, key=lambda r: -len(r.planned))
    active = []
    failed_starts = successful_starts = 0
    give_up = ""
    sys.stdout.flush()
    sys.stderr.flush()

    def done(worker):
        nonlocal failed_starts, successful_starts, give_up
        active.remove(worker)
        worker.finish(grace)
        run = worker.run
        successful_starts += run.started
        failed_starts += not run.started
        if not successful_starts and failed_starts >= GIVE_UP_AFTER:
            give_up = run.error
        if not options.keep and run.ok:
            shutil.rmtree(os.path.join(base_dir, run.name), ignore_errors=True)
        on_done(run)

    try:
        while queue or active:
            if queue and time.monotonic() > end:
                give_up = give_up or "the time for the whole run was over"
            while queue and (give_up or len(active) < options.jobs):
                run = queue.pop(0)
                if give_up:
                    run.tried = False
                    run.error = "not tried: %s" % give_up
                    run.fail_missing_tests()
                    on_done(run)
                else:
                    active.append(
                        _Worker(
                            run, options, 0 if options.url else next(free_ports), base_dir
                        )
                    )
            now = time.monotonic()
            for worker in list(active):
                if now > min(worker.deadline, end) and not worker.asked_to_stop:
                    worker.stop("not finished in time", grace)
                elif worker.asked_to_stop and now > worker.deadline:
                    worker.process.kill()
            ready = connection.wait(
                [w.pipe for w in active] + [w.process.sentinel for w in active],
                timeout=0.5,
            )
            for worker in list(active):
                if worker.pipe in ready or worker.process.sentinel in ready:
                    if not worker.read() or not worker.process.is_alive():
                        done(worker)
    except BaseException:
        # Interrupted, or an error in here: no worker may be left behind.
        for worker in active:
            worker.stop("interrupted", grace)
        for worker in list(active):
            worker.finish(grace)
            active.remove(worker)
        raise
    finally:
        if options.keep:
            print("servers' files are kept in %s" % base_dir)
        else:
            shutil.rmtree(base_dir, ignore_errors=True)
