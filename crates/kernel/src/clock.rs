//! The clocks that events and runs are told in.

/// CLOCK_MONOTONIC in nanoseconds: the clock of `trace_clock` "mono".
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CLOCK_BOOTTIME in nanoseconds: the clock of `bpf_ktime_get_boot_ns`.
pub fn boottime_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// CLOCK_TAI in nanoseconds: the clock of `bpf_ktime_get_tai_ns`.
pub fn tai_ns() -> u64 {
    read(libc::CLOCK_TAI)
}

/// CPU time the whole process has used, in nanoseconds, user and system together.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// What to add to a monotonic time to get the wall clock's, in nanoseconds, as of now.
/// The wall clock is read between two monotonic reads, of five tries the narrowest counts.
pub fn realtime_minus_monotonic_ns() -> i64 {
    let narrowest = (0..5)
        .map(|_| {
            let before = monotonic_ns();
            let wall = realtime_ns();
            let after = monotonic_ns();
            (after - before, wall as i64 - (before + (after - before) / 2) as i64)
        })
        .min_by_key(|(width, _)| *width);
    narrowest.map_or(0, |(_, offset)| offset)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; the clocks named above always exist.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    debug_assert_eq!(result, 0, "clock {clock} cannot be read");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
