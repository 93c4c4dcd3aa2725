//! Tools of the family `applications`.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::load::Folder;
use crate::shared::{Running, counted, counted_within, tool, tool_text};
use crate::{load, needs_tracing};

/// Whether a file has static probes of a provider.
fn has_probes(file: &str, provider: &str) -> bool {
    let output = Command::new("readelf").args(["-n", file]).output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).contains(&format!("Provider: {provider}"))
    })
}

#[test]
fn bashreadline_shows_what_is_entered() {
    needs_tracing!();
    if !std::path::Path::new("/bin/bash").exists() {
        testkit::skipped!("there is no /bin/bash");
    }
    let running = Running::start(&["bashreadline"]);
    let mut shell = Command::new("/bin/bash")
        .args(["--norc", "-i"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(b"echo one\ntrue two\nexit\n").unwrap();
    shell.wait().unwrap();
    let answer = running.stop().done();
    let rows = answer.rows_with(&[("pid", shell.id().into())]);
    let lines: Vec<_> = rows.iter().map(|row| row["line"].clone()).collect();
    assert_eq!(lines, ["echo one", "true two", "exit"]);
}

#[test]
fn gethostlatency_shows_each_look_up() {
    needs_tracing!();
    if !testkit::skip::has_program("getent") {
        testkit::skipped!("getent is not installed");
    }
    let answer = tool(&["gethostlatency", "-c", "sh -c 'exec getent ahosts localhost >/dev/null'"]).done();
    let rows = answer.rows();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(
        (&rows[0]["host"], &rows[0]["error"], &rows[0]["comm"]),
        (&json!("localhost"), &json!(0), &json!("getent"))
    );
    // No name server is asked for a name like this one.
    let answer = tool(&["gethostlatency", "-c", "sh -c 'exec getent ahosts not_a_name!'"]).done();
    let rows = answer.rows();
    assert!(
        rows.len() == 1 && rows[0]["error"].as_str().is_some_and(|error| error.starts_with("EAI_")),
        "{rows:?}"
    );
}

#[test]
fn ssllatency_counts_handshakes_reads_and_writes() {
    needs_tracing!();
    if !testkit::skip::has_program("openssl") || !testkit::skip::has_program("curl") {
        testkit::skipped!("openssl and curl are not both installed");
    }
    let folder = Folder::new();
    let (key, certificate) = (folder.file("key"), folder.file("cert"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=test",
            "-keyout",
            &key,
            "-out",
            &certificate,
        ])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut server = Command::new("openssl")
        .args(["s_server", "-quiet", "-www", "-accept", &port, "-key", &key, "-cert", &certificate])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    crate::shared::wait_until("the server listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port.parse().unwrap())).is_ok()
    });
    let command = format!("sh -c 'exec curl -sk https://127.0.0.1:{port}/ >/dev/null'");
    let answer = tool(&["ssllatency", "-c", &command]).done();
    server.kill().unwrap();
    server.wait().unwrap();
    // Curl's socket does not block: the handshake takes several calls, and is one.
    let usecs = answer.map("@usecs");
    assert_eq!((counted(&usecs["handshake"]), counted(&usecs["write"])), (1, 1), "{usecs}");
    assert!(counted(&usecs["read"]) >= 1, "{usecs}");
}

#[test]
fn mallocstacks_adds_up_bytes_by_stack() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(
        &folder,
        "void *allocate_here(int n) { void *p = malloc(n); asm volatile(\"\" : : \"r\"(p) : \"memory\"); return p; }",
        "TIMES(100) free(allocate_here(1000)); free(calloc(10, 70));"
    );
    let answer = tool(&["mallocstacks", "--min=500", "-c", &program]).done();
    let bytes = answer.map("@bytes").as_object().cloned().unwrap_or_default();
    let of = |function: &str| {
        let with = bytes.iter().filter(|(stack, _)| stack.contains(function));
        with.filter_map(|(_, bytes)| bytes.as_u64()).sum::<u64>()
    };
    assert_eq!((of("allocate_here"), of("calloc")), (100_000, 700), "{bytes:?}");
}

#[test]
fn pythons_imports_and_collections_are_counted() {
    needs_tracing!();
    let python = "/usr/bin/python3";
    if !has_probes(python, "python") {
        testkit::skipped!("{python} has no static probes");
    }
    let folder = Folder::new();
    let (program, module) = (folder.file("program.py"), folder.file("slow.py"));
    std::fs::write(module, "import time\ntime.sleep(0.05)\nimport inner\n").unwrap();
    std::fs::write(folder.file("inner.py"), "").unwrap();
    let text = format!(
        "import gc, sys\nsys.path.append({:?})\nimport slow\ntry:\n  import nonsuch\nexcept ImportError: pass\n\
         gc.disable()\nfor i in range(7): gc.collect(1)\n",
        folder.path()
    );
    std::fs::write(&program, text).unwrap();
    let command = format!("{python} -I -S {program}");
    let answer = tool(&["pythonimports", "-c", &command]).done();
    let one = |name: &str| match answer.rows_with(&[("module", name.into())]).as_slice() {
        [row] => (*row).clone(),
        rows => panic!("{name}: {rows:?}"),
    };
    assert_eq!((&one("slow")["found"], &one("slow")["depth"]), (&json!(1), &json!(1)));
    assert!(one("slow")["us"].as_u64() >= Some(50_000), "{}", one("slow"));
    assert_eq!((&one("inner")["depth"], &one("nonsuch")["found"]), (&json!(2), &json!(0)));
    let answer = tool(&["pythongc", "-c", &command]).done();
    assert_eq!(answer.rows_with(&[("generation", json!(1))]).len(), 7, "{:?}", answer.rows());
}

#[test]
fn collections_of_java_are_shown() {
    needs_tracing!();
    let machine = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let machine = machine.map(|entry| entry.path().join("lib/server/libjvm.so"));
    let has = machine.filter(|path| path.exists()).any(|path| has_probes(path.to_str().unwrap(), "hotspot"));
    if !has || !testkit::skip::has_program("java") {
        testkit::skipped!("there is no Java with static probes");
    }
    let folder = Folder::new();
    let program = folder.file("Collect.java");
    let text =
        "class Collect { public static void main(String[] a) { for (int i = 0; i < 5; i++) System.gc(); } }";
    std::fs::write(&program, text).unwrap();
    let answer = tool(&["javagc", "-c", &format!("java -XX:+UseSerialGC {program}")]).done();
    assert_eq!(answer.rows_with(&[("full", Value::from(1))]).len(), 5, "{:?}", answer.rows());
}

const FUNCTIONS: &str = "
int work(int n) { usleep(n); return n; }
int deep(int n) { if (!n) { usleep(20000); return 7; } int r = deep(n - 1); asm volatile(\"\" : : : \"memory\"); return r + 1; }";

#[test]
fn functions_and_probes_are_counted() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(&folder, FUNCTIONS, "TIMES(30) work(1000); work(50000); deep(4);");
    let answer =
        tool(&["funccount", &format!("uprobe:{program}:work,uprobe:{program}:de*p"), "-c", &program]).done();
    let calls = |name: &str| {
        answer.rows_with(&[("probe", format!("uprobe:{program}:{name}").into())])[0]["calls"].clone()
    };
    assert_eq!((calls("work"), calls("deep")), (json!(31), json!(5)));
    let by =
        tool(&["funccount", "tracepoint:syscalls:sys_enter_clock_nanosleep", "--by=process", "-c", &program])
            .done();
    assert_eq!(
        (by.rows().len(), &by.rows()[0]["calls"], &by.rows()[0]["comm"]),
        (1, &json!(32), &json!("load"))
    );
}

#[test]
fn functions_are_timed_also_when_they_call_themselves() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(&folder, FUNCTIONS, "TIMES(30) work(1000); work(50000); deep(4);");
    let answer = tool(&["funclatency", &format!("{program}:work"), "-c", &program]).done();
    assert_eq!(counted(answer.map("@usecs")), 31);
    assert!(counted_within(answer.map("@usecs"), 512, i64::MAX) == 31, "{}", answer.map("@usecs"));
    assert!(counted_within(answer.map("@usecs"), 32768, i64::MAX) >= 1);
    let answer = tool(&["funcslower", &format!("{program}:deep"), "--min=20000", "-c", &program]).done();
    let rows = answer.rows();
    let results: Vec<_> = rows.iter().map(|row| row["result"].clone()).collect();
    assert_eq!(results, [7, 8, 9, 10, 11]);
    assert!(rows.windows(2).all(|two| two[0]["us"].as_u64() <= two[1]["us"].as_u64()), "{rows:?}");
    assert!(rows.iter().all(|row| row["function"] == "deep"));
    let wrong = tool(&["funclatency", &format!("{program}:there_is_none"), "-c", &program]);
    assert!(
        wrong.status == Some(2) && wrong.stderr.contains("there_is_none can be traced"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn values_are_counted_and_shown() {
    needs_tracing!();
    let folder = Folder::new();
    let program = load!(&folder, FUNCTIONS, "TIMES(30) work(1000); work(5000); deep(4);");
    let probe = format!("uprobe:{program}:work");
    let answer = tool(&["argdist", &probe, "(int32)arg0", "--count", "-c", &program]).done();
    let count = |value: i64| answer.rows_with(&[("value", value.into())])[0]["count"].clone();
    assert_eq!((answer.rows().len(), count(1000), count(5000)), (2, json!(30), json!(1)));
    let answer = tool(&["argdist", &format!("{probe} /arg0 > 1000/"), "arg0", "-c", &program]).done();
    assert_eq!((counted(answer.map("@values")), counted_within(answer.map("@values"), 4096, 8191)), (1, 1));
    let answer = tool(&["argsnoop", &format!("uretprobe:{program}:deep"), "retval", "-c", &program]).done();
    let values: Vec<_> = answer.rows().iter().map(|row| row["value"].clone()).collect();
    assert_eq!(values, [7, 8, 9, 10, 11]);
    let (status, _, err) = tool_text(&["argsnoop", "begin"]);
    assert!(status == Some(2) && err.contains("EXPRESSION"), "{err}");
}
