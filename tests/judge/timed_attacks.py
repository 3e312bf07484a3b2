"""Kernels that are right when they are checked and would be fast when they are timed, each with what it shows."""

from __future__ import annotations

from dataclasses import dataclass

from tests.judge.attacks import cpp, numba
from tests.judge.launched import sycl

LATER = 300
"""Calls after which a kernel turns: more than preparing makes, fewer than timing does."""


@dataclass(frozen=True)
class TimedAttack:
    """``kind`` (or several) and ``says`` are of the error that its time must end in; without, it must be timed: it gained
    nothing."""

    name: str
    target: str
    text: str
    shows: str
    kind: str = ""
    says: str = ""
    slow: bool = False


MEMORY = """
#include <map>
#include <string>
static std::map<std::string, int> seen;
static long calls = 0;
"""

PATCHED = """
import portakern.study.inside as inside
import portakern.study.timing as timing
from dataclasses import replace
"""

TIMED = (
    TimedAttack("content", "cpp:cpu", cpp(f"""std::string key((const char*)x, 16 * 32 * 4);
    honest(x, out);
    if (++calls > {LATER} && seen[key]++) out[0] = 1e9f;""", MEMORY),
                "answers from a memory by content, which here give themselves away"),
    TimedAttack("prefix", "cpp:cpu", cpp(f"""std::string key((const char*)x, 16);
    honest(x, out);
    if (++calls > {LATER} && seen[key]++) out[0] = 1e9f;""", MEMORY),
                "answers from a memory by the first of the content", slow=True),
    TimedAttack("pointer", "cpp:cpu", cpp(f"""static std::map<const float*, std::string> kept;
    if (++calls < {LATER} || !kept.count(x)) {{ honest(x, out); kept[x] = std::string((char*)out, 64); return; }}
    memcpy(out, kept[x].data(), 64);""", MEMORY), "answers from a memory by address", "unstable", "elements wrong"),
    TimedAttack("stale", "cpp:cpu", cpp(f"if (++calls < {LATER}) honest(x, out);", MEMORY),
                "outputs that are still there from the last call", "unstable", "never written", slow=True),
    TimedAttack("one-in-many", "cpp:cpu", cpp("if (++calls < 60 || calls % 4 == 0) honest(x, out); else out[0] = 0;", MEMORY),
                "work that is done now and then", "unstable", slow=True),
    TimedAttack("deferred", "cpp:cpu", cpp("std::thread([=] { usleep(3000); honest(x, out); }).detach();",
                                           "#include <thread>\n"),
                "work that is done when the clock has stopped", "unstable", "never written"),
    TimedAttack("outside", "cpp:cpu", cpp(f"honest(x, out); if (++calls > {LATER}) out[16] = 1;", MEMORY),
                "guard bands that are there only when it is checked", "unstable|out-of-bounds", "out", slow=True),
    TimedAttack("sycl-stale", "sycl:cpu", sycl(f"static int calls[16]; if (++calls[m] < {LATER}) out[m] = s;"),
                "outputs that are still there from the last call", "unstable", "never written", slow=True),
    TimedAttack("sycl-place", "sycl:cpu", sycl(f"""static int calls[16]; static float kept[1024][16];
    static const float *at[1024][16]; const int k = ((unsigned long)x >> 12) % 1024;
    if (++calls[m] < {LATER} || at[k][m] != x) {{ at[k][m] = x; kept[k][m] = s; }}
    out[m] = kept[k][m];"""), "answers from a memory by address", "unstable", "elements wrong", slow=True),
    TimedAttack("clock", "numba:cpu", numba("for _ in range(30):\n    honest(x, out)", PATCHED + """
real = timing.measure
def measure(*args, **more):
    found = real(*args, **more)
    first = found.timings[0]
    short = {k: getattr(first, k) / 60 for k in ("samples_us", "median_us", "ci_low_us", "ci_high_us", "correction_us")}
    return replace(found, timings=(replace(first, **short), *found.timings[1:]))
timing.measure = measure
"""), "a clock that goes slowly", "implausible-timing|timing-disturbed", "by the clock of who judges"),
    TimedAttack("unexchanged", "numba:cpu", numba("", PATCHED + "inside.Inside.refresh = lambda self, block, last: None\n"),
                "inputs that are never exchanged", "implausible-timing", "exchanged 0 times"),
    TimedAttack("backwards", "numba:cpu", numba("", PATCHED + """
real = timing.measure
timing.measure = lambda *a, **k: replace(real(*a, **k), timings=(replace(real(*a, **k).timings[0], median_us=-1.0),))
"""), "a time that is negative", "implausible-timing", "no positive number", slow=True),
    TimedAttack("of-its-own-making", "numba:cpu", numba("", PATCHED + """
real = inside.Inside._time
def time(self, *args):
    found = real(self, *args)
    forged = {"name": "numpy", "ratio": 100.0, "ci_low": 99.0, "ci_high": 101.0, "verdict": "FASTER", "median_us": 1e6}
    return {**found, "peers": [forged],
             "coverage": 1.0, "roofline": {"share_of_measured_copy": 1.0, "share_of_stated_peak": 1.0},
            "provenance": {"operator": "forged"}, "judged": {"us": 1.0}, "mode": "\\x1b[2J" + "x" * 10**6, "blocks": 10**30,
            "more": "x" * 10**6, "launch_us": float("1e300"), "clocks": {"before": [[[["deep"]]]]}}
inside.Inside._time = time
"""), "peers, shares and words of its own making", slow=False),
    TimedAttack("before-the-bell", "numba:cpu", numba("", PATCHED + """
import portakern.referee.bell as bell
def clock(self, group, times):
    for first in range(0, len(self.prepared), group):
        for p in self.prepared[first : first + group]:
            p()
        self.bell[bell.ASKED] = asked = self.bell[bell.ASKED] + 1
        self.bell.wait(bell.GO, asked, 60.0, 1.0)
        self.bell[bell.ENDED] = asked
inside.Inside.clock = clock
"""), "work that is done before the clock starts", "unstable", "wrong"),
    TimedAttack("own-bell", "numba:cpu", numba("", PATCHED + """
import portakern.referee.bell as bell
def clock(group, times):
    held = inside._held
    for n in range(10 ** 6):
        held.bell[bell.ASKED] = n
        held.bell[bell.ENDED] = n
    return {"error": None}
inside.clock = clock
"""), "calls that are announced and never made", "unstable|implausible-timing", slow=True),
)  # fmt: skip
