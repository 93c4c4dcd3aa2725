"""The scheduler definitions once more, over the text that a peer prints of a trace.

    perf script --ns -F comm,tid,cpu,time,event,trace | brute_sched.py perf
    trace-cmd report -t | brute_sched.py trace-cmd

Written to be obviously right rather than fast: first every CPU's time is cut into
pieces of which it is certain who ran, then each thread's pieces and wakeups are walked.
Prints JSON: per thread number its run time, times switched in, waits and their sum (ns).
"""

import collections
import json
import re
import sys

PERF = re.compile(r"\s*.*?\s+(-?\d+) \[(\d+)\]\s+(\d+)\.(\d{9}):\s+(\S+?):(\S+?): ?(.*)")
FTRACE = re.compile(r"(?:r2:)?\s*.*?-(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}): (\S+): +(.*)")
SWITCH_PERF = re.compile(r"prev_comm=.* prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=.* next_pid=(\d+) next_prio=")
SWITCH_FTRACE = re.compile(r".*:(\d+) \[-?\d+\] (\S+) ==> .*:(\d+) \[-?\d+\]$")
PID = re.compile(r"comm=.* pid=(\d+) prio=")
PID_SHORT = re.compile(r".*:(\d+) \[-?\d+\]")
CHILD = re.compile(r".*child_pid=(\d+)")
EXEC = re.compile(r".*pid=(\d+) old_pid=(\d+)")


UNKNOWN = -2


def events(kind):
    """(time, cpu, current thread, name, details) of each line that is an event."""
    for line in sys.stdin:
        match = (PERF if kind == "perf" else FTRACE).match(line)
        if not match:
            continue
        if kind == "perf":
            tid, cpu, seconds, nanos, _, name, rest = match.groups()
        else:
            tid, cpu, seconds, nanos, name, rest = match.groups()
        yield int(seconds) * 10**9 + int(nanos), int(cpu), int(tid), name, rest


def pid_of(rest):
    match = PID.match(rest) or PID_SHORT.match(rest)
    return int(match.group(1))


def main():
    # Per thread: (time, order, what, detail)
    turns = collections.defaultdict(list)
    current, since, last = {}, {}, {}
    start = end = None
    order = 0
    renamed = {}
    for time, cpu, tid, name, rest in events(sys.argv[1]):
        order += 1
        start = time if start is None else start
        end = time
        if name == "sched_switch":
            match = SWITCH_PERF.match(rest) or SWITCH_FTRACE.match(rest)
            prev, state, next_ = int(match.group(1)), match.group(2), int(match.group(3))
            on_cpu = prev
        else:
            on_cpu = tid if tid > 0 or cpu not in current else current[cpu]
        if name == "sched_process_exec" and EXEC.match(rest):
            new, old = map(int, EXEC.match(rest).groups())
            if new != old and current.get(cpu) == old:
                current[cpu] = new
        known = current.get(cpu)
        if known != on_cpu:
            if known is None and not turns[on_cpu]:
                # Nothing else is known of the thread: it ran since the trace began.
                began = start
            elif known is None:
                began = time
            else:
                # A gap: the one before is certain up to the CPU's last event.
                turns[known].append((last[cpu], order, "lost", None))
                began = time
            current[cpu] = on_cpu
            turns[on_cpu].append((began, order, "found", cpu))
        last[cpu] = time
        if name == "sched_switch":
            turns[prev].append((time, order, "out", state))
            for other in current:
                if other != cpu and current[other] == next_ > 0:
                    # It left the other CPU unseen, some time after that CPU's last event.
                    turns[next_].append((last[other], order, "lost", None))
                    current[other] = UNKNOWN
            turns[next_].append((time, order, "in", cpu))
            current[cpu] = next_
        elif name in ("sched_waking", "sched_wakeup"):
            turns[pid_of(rest)].append((time, order, name[6:], None))
        elif name == "sched_wakeup_new":
            turns[pid_of(rest)].append((time, order, "new", None))
    for cpu, tid in current.items():
        turns[tid].append((end, order + 1, "end", None))
    report = {}
    for tid, list_ in turns.items():
        if tid <= 0:
            continue
        run = waits = wait_sum = ins = preempted = gaps = 0
        running = None      # since when
        runnable = None     # since when it waits
        woken = False       # since it last ran
        asleep = True       # off the CPU and not runnable, as far as known
        for time, _, what, detail in sorted(list_, key=lambda t: t[1]):
            if what in ("found", "in"):
                if what == "in":
                    ins += 1
                    if runnable is not None:
                        waits += 1
                        wait_sum += time - runnable
                elif runnable is not None:
                    gaps += 1
                if running is not None:
                    gaps += 1
                running, runnable, woken, asleep = time, None, False, False
            elif what in ("out", "end", "lost"):
                if running is not None:
                    run += time - running
                running = None
                asleep = what == "out" and not state_is_runnable(detail)
                runnable = time if what == "out" and not asleep else None
                preempted += runnable is not None
                woken = False
            elif what == "new":
                runnable, woken, asleep = time, True, False
            elif what == "waking" and runnable is not None and woken and running is None:
                gaps += 1
                runnable = time
            elif running is None and runnable is None:
                runnable, woken = time, True
            elif what == "waking" and running is None:
                woken = True
        report[tid] = {"run": run, "in": ins, "waits": waits, "sum": wait_sum, "gaps": gaps}
    json.dump({"start": start, "end": end, "threads": report}, sys.stdout)


def state_is_runnable(state):
    return state.startswith("R") or state.endswith("+")


main()
