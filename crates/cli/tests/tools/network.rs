//! Tools of the family `network`: connections, by those that the test itself makes.

mod packets;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::needs_tracing;
use crate::shared::{Answer, PATIENCE, Running, counted};

fn me() -> Value {
    std::process::id().into()
}

fn port_of(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap()
}

fn rows_at<'a>(answer: &'a Answer, end: &str, port: u16) -> Vec<&'a Value> {
    answer.rows_with(&[(end, port.into())])
}

/// A connection in which the client sends so much and gets so much back, and lives so long.
fn exchange(listener: &TcpListener, to: SocketAddr, there: usize, back: usize, life: Duration) {
    let mut client = TcpStream::connect(to).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let writer = std::thread::spawn(move || {
        client.write_all(&vec![1; there]).unwrap();
        let mut got = vec![0; back];
        client.read_exact(&mut got).unwrap();
        std::thread::sleep(life);
    });
    let mut got = vec![0; there];
    server.read_exact(&mut got).unwrap();
    server.write_all(&vec![2; back]).unwrap();
    // The client closes first.
    assert_eq!(server.read(&mut got).unwrap(), 0);
    writer.join().unwrap();
}

fn listen(address: impl Into<std::net::IpAddr>) -> (TcpListener, u16) {
    let listener = TcpListener::bind((address.into(), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn tcplife_tells_owner_payload_and_life_of_both_ends() {
    needs_tracing!();
    let (listener, port) = listen(Ipv4Addr::LOCALHOST);
    let mut running = Running::start(&["tcplife", &format!("--port={port}"), "-p", &me().to_string()]);
    let to = (Ipv4Addr::LOCALHOST, port).into();
    exchange(&listener, to, 100_000, 5_000, Duration::from_millis(30));
    let of_server = |row: &Value| row["lport"] == port;
    let mut seen = vec![running.next_line().unwrap()["data"].clone()];
    seen.push(running.next_line().unwrap()["data"].clone());
    let answer = running.stop().done();
    assert_eq!(answer.rows().len(), 2);
    let server = seen.iter().find(|row| of_server(row)).expect("the server's row");
    let client = seen.iter().find(|row| !of_server(row)).expect("the client's row");
    assert_eq!((&client["tx_bytes"], &client["rx_bytes"]), (&100_000.into(), &5_000.into()), "{client}");
    assert_eq!((&server["tx_bytes"], &server["rx_bytes"]), (&5_000.into(), &100_000.into()), "{server}");
    assert_eq!(port_of(client, "rport"), u64::from(port));
    assert_eq!(client["lport"], server["rport"]);
    for row in seen {
        assert_eq!(
            (&row["pid"], &row["laddr"], &row["raddr"]),
            (&me(), &"127.0.0.1".into(), &"127.0.0.1".into())
        );
        assert!(row["duration_us"].as_u64().unwrap() >= 30_000, "{row}");
    }
}

#[test]
fn tcplife_shows_ipv6_as_it_is_and_mapped_addresses_as_the_ipv4_that_they_are() {
    needs_tracing!();
    let Ok(listener) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) else {
        testkit::skipped!("no IPv6 here");
    };
    let port = listener.local_addr().unwrap().port();
    let running = Running::start(&["tcplife", &format!("--port={port}")]);
    exchange(&listener, (Ipv6Addr::LOCALHOST, port).into(), 10, 0, Duration::ZERO);
    exchange(&listener, (Ipv4Addr::LOCALHOST, port).into(), 20, 0, Duration::ZERO);
    let answer = running.stop().done();
    let of = |bytes: u64| answer.rows_with(&[("lport", port.into()), ("rx_bytes", bytes.into())]);
    assert_eq!((&of(10)[0]["laddr"], &of(10)[0]["raddr"]), (&"::1".into(), &"::1".into()));
    assert_eq!((&of(20)[0]["laddr"], &of(20)[0]["raddr"]), (&"127.0.0.1".into(), &"127.0.0.1".into()));
}

#[test]
fn tcpconnect_and_tcpaccept_show_each_connection_with_its_process() {
    needs_tracing!();
    let (listener, port) = listen(Ipv4Addr::LOCALHOST);
    let filter = format!("--port={port}");
    let connects = Running::start(&["tcpconnect", &filter]);
    let accepts = Running::start(&["tcpaccept", &filter, "-p", &me().to_string()]);
    let clients: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
    let ports: Vec<u16> = clients.iter().map(|client| client.local_addr().unwrap().port()).collect();
    for _ in 0..3 {
        listener.accept().unwrap();
    }
    let (connects, accepts) = (connects.stop().done(), accepts.stop().done());
    assert_eq!(connects.rows().len(), 3, "{:?}", connects.rows());
    for row in connects.rows() {
        assert_eq!((&row["pid"], &row["raddr"], &row["rport"]), (&me(), &"127.0.0.1".into(), &port.into()));
    }
    let rows = accepts.rows();
    assert_eq!(rows.iter().map(|row| port_of(row, "rport") as u16).collect::<Vec<_>>(), ports, "{rows:?}");
    // Two, one and none still waited.
    assert_eq!(rows.iter().map(|row| port_of(row, "queue")).collect::<Vec<_>>(), [2, 1, 0]);
    assert!(rows.iter().all(|row| row["pid"] == me() && row["lport"] == port));
}

#[test]
fn tcpconnlat_tells_success_from_refusal() {
    needs_tracing!();
    let (listener, port) = listen(Ipv4Addr::LOCALHOST);
    let (closed, closed_port) = listen(Ipv4Addr::LOCALHOST);
    drop(closed);
    let running = Running::start(&["tcpconnlat", "-p", &me().to_string()]);
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    TcpStream::connect((Ipv4Addr::LOCALHOST, closed_port)).unwrap_err();
    let answer = running.stop().done();
    drop(listener);
    let (open, refused) = (rows_at(&answer, "rport", port), rows_at(&answer, "rport", closed_port));
    assert_eq!((open.len(), refused.len()), (1, 1), "{:?}", answer.rows());
    assert_eq!((&open[0]["result"], &refused[0]["result"]), (&"connected".into(), &"refused".into()));
    assert_eq!(open[0]["lport"], client.local_addr().unwrap().port());
    assert!(open[0]["latency_us"].as_u64().unwrap() < PATIENCE.as_micros() as u64);
}

#[test]
fn tcpstates_follows_both_ends_through_their_lives() {
    needs_tracing!();
    let (listener, port) = listen(Ipv4Addr::LOCALHOST);
    let running = Running::start(&["tcpstates", &format!("--port={port}")]);
    exchange(&listener, (Ipv4Addr::LOCALHOST, port).into(), 1, 1, Duration::from_millis(20));
    let answer = running.stop().done();
    let path = |end: &str| {
        let rows = rows_at(&answer, end, port);
        let states = rows.iter().map(|row| row["new"].as_str().unwrap().to_owned());
        states.collect::<Vec<_>>()
    };
    assert_eq!(path("rport"), ["SYN_SENT", "ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2", "CLOSE"]);
    assert_eq!(path("lport"), ["SYN_RECV", "ESTABLISHED", "CLOSE_WAIT", "LAST_ACK", "CLOSE"]);
    let closing = answer.rows_with(&[("rport", port.into()), ("old", "ESTABLISHED".into())]);
    assert!(closing[0]["us"].as_u64().unwrap() >= 20_000, "{closing:?}");
    assert_eq!(closing[0]["pid"], me());
}

#[test]
fn tcptop_sums_what_was_written_and_read() {
    needs_tracing!();
    let (listener, port) = listen(Ipv4Addr::LOCALHOST);
    let running = Running::start(&["tcptop", "-p", &me().to_string()]);
    exchange(&listener, (Ipv4Addr::LOCALHOST, port).into(), 102_400, 10_240, Duration::ZERO);
    let answer = running.stop();
    if answer.stderr.contains("needs the tracepoints") {
        testkit::skipped!("{}", answer.stderr);
    }
    let answer = answer.done();
    let (client, server) = (rows_at(&answer, "rport", port), rows_at(&answer, "lport", port));
    assert_eq!((client.len(), server.len()), (1, 1), "{:?}", answer.rows());
    let moved = |row: &Value| (row["tx_kb"].as_f64().unwrap(), row["rx_kb"].as_f64().unwrap());
    assert_eq!((moved(client[0]), moved(server[0])), ((100.0, 10.0), (10.0, 100.0)));
}

#[test]
fn tcprtt_counts_what_arrives_at_the_selected_connections() {
    needs_tracing!();
    let (listener, port) = listen(Ipv4Addr::LOCALHOST);
    let pids = ["-p", &me().to_string()];
    let running = Running::start(&[&["tcprtt", &format!("--rport={port}")], &pids[..]].concat());
    let by_port = Running::start(&["tcprtt", &format!("--rport={port}"), "--by=raddr"]);
    let others = Running::start(&["tcprtt", &format!("--rport={port}"), "-p", "1"]);
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut byte = [0];
    for _ in 0..50 {
        client.write_all(&[1]).unwrap();
        server.read_exact(&mut byte).unwrap();
        server.write_all(&[2]).unwrap();
        client.read_exact(&mut byte).unwrap();
    }
    let (answer, by_port, others) = (running.stop().done(), by_port.stop().done(), others.stop().done());
    // Each answer arrives, and perhaps an acknowledgement before it.
    let count = counted(answer.map("@srtt_us"));
    assert!((50..=101).contains(&count), "{count}");
    assert_eq!(counted(&by_port.map("@srtt_us")["127.0.0.1"]), count);
    assert_eq!(counted(others.map("@srtt_us")), 0, "{:?}", others.lines);
}

#[test]
fn tcpstates_sees_the_changes_that_the_libbpf_tool_sees() {
    needs_tracing!();
    if !testkit::skip::has_program("tcpstates") || !testkit::skip::has_program("stdbuf") {
        testkit::skipped!("libbpf-tools or stdbuf are not installed");
    }
    let mut peer = Command::new("stdbuf")
        .args(["-oL", "tcpstates"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines();
    if lines.next().is_none() {
        let _ = peer.wait();
        testkit::skipped!("the libbpf tool does not run here");
    }
    let (listener, port) = listen(Ipv4Addr::LOCALHOST);
    let running = Running::start(&["tcpstates", &format!("--port={port}")]);
    // Its heads come before it is attached: what it misses then is told by a connection that it must see whole.
    let mut theirs = Vec::new();
    let mut ours_from = 0;
    for _ in 0..20 {
        exchange(&listener, (Ipv4Addr::LOCALHOST, port).into(), 1, 1, Duration::ZERO);
        ours_from += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = Command::new("kill").args(["-INT", &peer.id().to_string()]).status();
    for line in lines.map_while(Result::ok) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if let [_, _, _, _, lport, _, rport, old, "->", new, _] =
            words.iter().map(String::as_str).collect::<Vec<_>>()[..]
            && (lport == port.to_string() || rport == port.to_string())
        {
            theirs.push((lport == port.to_string(), old.to_owned(), new.to_owned()));
        }
    }
    let _ = peer.wait();
    let answer = running.stop().done();
    let ours: Vec<(bool, String, String)> = answer
        .rows()
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            (row["lport"] == port, text("old"), text("new"))
        })
        .collect();
    assert_eq!(ours.len(), ours_from * 10, "{ours:?}");
    assert!(theirs.len() >= 10, "{theirs:?}");
    // The last connections are seen by both; the kernel's word for a state is another there and here at most.
    let last = theirs.len() / 10 * 10;
    assert_eq!(ours[ours.len() - last..], theirs[theirs.len() - last..]);
}

#[test]
fn a_tool_for_connections_shows_nothing_of_processes_that_are_not_selected() {
    needs_tracing!();
    let (listener, port) = listen(Ipv4Addr::LOCALHOST);
    let names = ["tcplife", "tcpconnect", "tcpaccept", "tcpconnlat", "tcpstates"];
    let running: Vec<Running> = names.iter().map(|name| Running::start(&[name, "-p", "1"])).collect();
    exchange(&listener, (Ipv4Addr::LOCALHOST, port).into(), 10, 10, Duration::ZERO);
    for (name, running) in names.iter().zip(running) {
        let answer = running.stop().done();
        let rows = [rows_at(&answer, "rport", port), rows_at(&answer, "lport", port)].concat();
        assert!(rows.is_empty(), "{name}: {rows:?}");
    }
}
