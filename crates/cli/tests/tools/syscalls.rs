//! Tools of the family `syscalls`.

use serde_json::{Value, json};

use crate::load::Folder;
use crate::shared::{Answer, counted, counted_within, tool};
use crate::{load, needs_tracing};

/// The one row with these fields.
#[track_caller]
fn row<'a>(answer: &'a Answer, fields: &[(&str, Value)]) -> &'a Value {
    match answer.rows_with(fields).as_slice() {
        [row] => row,
        rows => panic!("{fields:?}: {rows:?} among {:?}", answer.rows()),
    }
}

fn name(syscall: &str) -> [(&'static str, Value); 1] {
    [("syscall", syscall.into())]
}

#[test]
fn syscount_counts_calls_and_failures() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(&folder, "TIMES(200) syscall(SYS_getppid); TIMES(7) getpriority(99, 0);");
    let answer = tool(&["syscount", "-c", &program]).done();
    assert_eq!(row(&answer, &name("getppid"))["calls"], 200);
    assert_eq!(row(&answer, &name("getppid"))["errors"], Value::Null);
    let failing = row(&answer, &name("getpriority"));
    assert_eq!((&failing["calls"], &failing["errors"]), (&json!(7), &json!(7)));
    // Nobody asked for the time.
    assert!(failing.get("time_ms").is_none(), "{failing}");
    // The call that never returns.
    assert_eq!(row(&answer, &name("exit_group"))["calls"], 1);
}

#[test]
fn syscount_adds_up_the_time_by_process() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(&folder, "struct timespec t = {0, 50000000}; TIMES(4) nanosleep(&t, 0);");
    let answer = tool(&["syscount", "--time", "-c", &program]).done();
    let sleeps = row(&answer, &name("clock_nanosleep"));
    assert_eq!(sleeps["calls"], 4);
    assert!(sleeps["time_ms"].as_f64().unwrap() >= 200.0, "{sleeps}");
    assert!(sleeps["max_us"].as_f64().unwrap() >= 50_000.0, "{sleeps}");
    let answer = tool(&["syscount", "--time", "--by=process", "-c", &program]).done();
    let process = row(&answer, &[("comm", "load".into())]);
    assert!(process["time_ms"].as_f64().unwrap() >= 200.0, "{process}");
    assert!(answer.rows().iter().all(|row| row["pid"] == process["pid"]), "{:?}", answer.rows());
}

#[test]
fn system_calls_of_32_bit_programs_are_named_as_what_they_are() {
    needs_tracing!();
    if !cfg!(target_arch = "x86_64") {
        testkit::skipped!("only x86-64 has them");
    }
    let folder = Folder::new();
    // Number 20 is getpid there, and writev here.
    let body = "TIMES(5) { long r = 20; asm volatile(\"int $0x80\" : \"+a\"(r) : : \"memory\"); }";
    let program = load!(&folder, body);
    if !std::process::Command::new(&program).status().unwrap().success() {
        testkit::skipped!("this kernel has no 32-bit system calls");
    }
    let answer = tool(&["syscount", "-c", &program]).done();
    assert_eq!(row(&answer, &name("ia32:getpid"))["calls"], 5);
    assert!(answer.rows_with(&name("writev")).is_empty());
}

#[test]
fn syslat_has_one_histogram_for_each_call() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(
        &folder,
        "struct timespec t = {0, 10000000}; TIMES(20) nanosleep(&t, 0); TIMES(30) syscall(SYS_getppid);"
    );
    let answer = tool(&["syslat", "-c", &program]).done();
    let usecs = answer.map("@usecs");
    assert_eq!(counted(&usecs["getppid"]), 30);
    assert_eq!(counted(&usecs["clock_nanosleep"]), 20);
    assert_eq!(counted_within(&usecs["clock_nanosleep"], 8192, i64::MAX), 20);
    let answer = tool(&["syslat", "--syscall=getppid", "-c", &program]).done();
    assert_eq!(answer.map("@usecs").as_object().unwrap().keys().collect::<Vec<_>>(), ["getppid"]);
    let wrong = tool(&["syslat", "--syscall=getpppid", "-c", &program]);
    assert!(wrong.status == Some(2) && wrong.stderr.contains("getppid"), "{}", wrong.stderr);
}

#[test]
fn errsnoop_names_the_errors_that_a_program_gets() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(
        &folder,
        "void nothing(int s) {}",
        "TIMES(30) getpriority(99, 0);
         TIMES(4) open(\"/there/is/no/such/file\", O_RDONLY);
         struct sigaction a = { .sa_handler = nothing }; sigaction(SIGALRM, &a, 0);
         struct itimerval in20ms = { .it_value = { 0, 20000 } };
         TIMES(3) { setitimer(ITIMER_REAL, &in20ms, 0); pause(); }
         // With SA_RESTART the program sees no error.
         a.sa_flags = SA_RESTART; sigaction(SIGALRM, &a, 0);
         int pair[2]; pipe(pair);
         if (!fork()) { usleep(100000); write(pair[1], \"x\", 1); _exit(0); }
         setitimer(ITIMER_REAL, &in20ms, 0); char c; NEEDS(read(pair[0], &c, 1) == 1); wait(0);"
    );
    let answer = tool(&["errsnoop", "-c", &program]).done();
    let of = |syscall: &str| {
        let rows: Vec<_> = answer
            .rows()
            .iter()
            .filter(|row| row["comm"] == "load" && row["syscall"] == syscall)
            .map(|row| (row["error"].clone(), row["count"].as_u64().unwrap()))
            .collect();
        rows
    };
    assert_eq!(of("getpriority"), [("EINVAL".into(), 30)]);
    assert_eq!(of("pause"), [("EINTR".into(), 3)]);
    assert_eq!(of("read"), []);
    assert!(
        answer
            .rows()
            .iter()
            .all(|row| row["error"].as_str().is_some_and(|name| !name.starts_with("ERESTART")))
    );
    let answer =
        tool(&["errsnoop", "--each", "--error=EINVAL", "--syscall=getpriority", "-c", &program]).done();
    assert_eq!(answer.rows().len(), 30);
}

#[test]
fn retries_finds_cascades_and_no_single_failures() {
    needs_tracing!();
    let folder = Folder::new();
    // 50 failures in a row, then one success; 3 and one; single ones with a success between; another descriptor.
    let program = load!(
        &folder,
        "int a[2], b[2]; char c; pipe2(a, O_NONBLOCK); pipe2(b, O_NONBLOCK);
         struct timespec t = {0, 1000000};
         TIMES(50) { read(a[0], &c, 1); nanosleep(&t, 0); }
         write(a[1], \"x\", 1); read(a[0], &c, 1);
         TIMES(3) read(a[0], &c, 1);
         write(a[1], \"x\", 1); read(a[0], &c, 1);
         TIMES(10) { read(b[0], &c, 1); write(b[1], \"x\", 1); read(b[0], &c, 1); }"
    );
    let answer = tool(&["retries", "-c", &program]).done();
    let rows = answer.rows_with(&[("comm", "load".into())]);
    assert_eq!(rows.len(), 1, "{:?}", answer.rows());
    let found = rows[0];
    assert_eq!((&found["syscall"], &found["error"]), (&json!("read"), &json!("EAGAIN")));
    assert_eq!(
        (&found["failed"], &found["cascades"], &found["longest"]),
        (&json!(53), &json!(2), &json!(50))
    );
    assert!(found["time_ms"].as_f64().unwrap() >= 49.0, "{found}");
    let answer = tool(&["retries", "--min=10", "-c", &program]).done();
    let rows = answer.rows_with(&[("comm", "load".into())]);
    assert_eq!((rows.len(), &rows[0]["failed"], &rows[0]["cascades"]), (1, &json!(50), &json!(1)));
}
