"""Processes that give way to others, as if they ran on another machine."""

import os
import pathlib
import time

NICE_MAX = 19


def give_way() -> None:
    """Let this process have a processor only when hardly any other process wants one.

    Linux shares processors among sessions first, if it groups processes automatically, and among the processes of
    each session then. So this process gets a session of its own, which has the lowest priority as a whole; and a
    policy for idle times, because only processes with this policy give way at once.
    """
    os.setsid()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    for _ in range(20):
        try:
            pathlib.Path("/proc/self/autogroup").write_text(str(NICE_MAX))
            return
        except BlockingIOError:
            # Only so many processes may do this in a second.
            time.sleep(0.1)
        except OSError:
            # This system does not group processes.
            return
