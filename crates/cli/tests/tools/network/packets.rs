//! Packets that are sent again, dropped or wait, in namespaces of the test's own.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{listen, rows_at};
use crate::needs_tracing;
use crate::shared::{Running, counted, counted_within, wait_until};

/// Two network namespaces with a cable between them, gone when dropped.
struct Net {
    names: [String; 2],
}

impl Net {
    fn new(test: &str) -> Result<Net, String> {
        let id = std::process::id();
        let net = Net { names: ["a", "b"].map(|end| format!("lotse-{test}-{id}-{end}")) };
        let [a, b] = &net.names;
        net.ip(&["netns", "add", a])?;
        net.ip(&["netns", "add", b])?;
        net.ip(&["link", "add", "va", "netns", a, "type", "veth", "peer", "name", "vb", "netns", b])?;
        for (name, dev, address) in [(a, "va", "10.99.0.1/24"), (b, "vb", "10.99.0.2/24")] {
            net.ip(&["-n", name, "addr", "add", address, "dev", dev])?;
            net.ip(&["-n", name, "link", "set", dev, "up"])?;
            net.ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(net)
    }

    fn ip(&self, words: &[&str]) -> Result<(), String> {
        let output = Command::new("ip").args(words).output().map_err(|why| format!("ip: {why}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
    }

    fn command(&self, end: usize, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[end]]).args(words);
        command
    }

    /// TCP segments that this end has sent again, as the kernel counts.
    fn retransmitted(&self, end: usize) -> u64 {
        let output = self.command(end, &["cat", "/proc/net/snmp"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
        let (heads, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = heads.split(' ').position(|head| head == "RetransSegs").unwrap();
        values.split(' ').nth(at).unwrap().parse().unwrap()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

macro_rules! net {
    ($test:literal) => {
        match Net::new($test) {
            Ok(net) => net,
            Err(why) => testkit::skipped!("no network namespaces: {why}"),
        }
    };
}

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn needs_perl() -> bool {
    testkit::skip::has_program("perl")
}

#[test]
fn tcpretrans_agrees_with_the_kernels_counter_of_segments() {
    needs_tracing!();
    if !needs_perl() {
        testkit::skipped!("perl is not installed");
    }
    let net = net!("retrans");
    let script = "use IO::Socket::INET; $|=1; \
        my $l = IO::Socket::INET->new(Listen=>5, LocalAddr=>'10.99.0.2', LocalPort=>7000) or die; \
        print qq(ready\\n); my $c = $l->accept; while (sysread($c, my $b, 65536)) { }";
    let mut server = Killed(net.command(1, &["perl", "-e", script]).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let running = Running::start(&["tcpretrans", "--rport=7000"]);
    let script = "use IO::Socket::INET; $|=1; \
        my $s = IO::Socket::INET->new(PeerAddr=>'10.99.0.2', PeerPort=>7000) or die; \
        print qq(connected\\n); <STDIN>; syswrite($s, 'x' x 5000) for 1..3; <STDIN>";
    let mut client = Killed(
        net.command(0, &["perl", "-e", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap(),
    );
    BufReader::new(client.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\nconnected\n");
    // The other end vanishes, what is sent to it is sent again, and it comes back.
    net.ip(&["-n", &net.names[1], "addr", "del", "10.99.0.2/24", "dev", "vb"]).unwrap();
    client.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    wait_until("segments are sent again", || net.retransmitted(0) >= 3);
    net.ip(&["-n", &net.names[1], "addr", "add", "10.99.0.2/24", "dev", "vb"]).unwrap();
    let pid = client.0.id();
    drop(client);
    drop(server);
    let answer = running.stop().done();
    let rows = answer.rows_with(&[("raddr", "10.99.0.2".into())]);
    let segments: u64 = rows.iter().map(|row| row["segs"].as_u64().unwrap()).sum();
    assert_eq!(segments, net.retransmitted(0), "{rows:?}");
    // Its own process, though timers in anybody's time sent them.
    assert!(rows.iter().all(|row| row["pid"] == pid && row["comm"] == "perl"), "{pid} {rows:?}");
    assert!(rows.iter().all(|row| row["bytes"].as_u64().unwrap() > 0), "{rows:?}");
}

#[test]
fn tcpretrans_shows_a_syn_that_nobody_answers() {
    needs_tracing!();
    if !needs_perl() {
        testkit::skipped!("perl is not installed");
    }
    let net = net!("syn");
    // Known to the neighbour, and not there.
    net.ip(&["-n", &net.names[0], "neigh", "add", "10.99.0.9", "lladdr", "02:00:00:00:00:09", "dev", "va"])
        .unwrap();
    let running = Running::start(&["tcpretrans", "--rport=7001"]);
    let script = "use IO::Socket::INET; IO::Socket::INET->new(PeerAddr=>'10.99.0.9', PeerPort=>7001)";
    let client = Killed(net.command(0, &["perl", "-e", script]).spawn().unwrap());
    wait_until("a SYN is sent again", || net.retransmitted(0) >= 1);
    let pid = client.0.id();
    drop(client);
    let answer = running.stop().done();
    let rows = answer.rows();
    assert_eq!(rows.len() as u64, net.retransmitted(0));
    let row = rows[0];
    assert_eq!(
        (&row["state"], &row["pid"], &row["segs"]),
        (&"SYN_SENT".into(), &pid.into(), &1.into()),
        "{row}"
    );
}

#[test]
fn tcpdrop_tells_why_a_syn_to_a_closed_port_is_dropped() {
    needs_tracing!();
    let (closed, port) = listen(Ipv4Addr::LOCALHOST);
    drop(closed);
    let running = Running::start(&["tcpdrop", &format!("--port={port}")]);
    for _ in 0..3 {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
    }
    let answer = running.stop().done();
    let rows = rows_at(&answer, "dport", port);
    assert_eq!(rows.len(), 3, "{:?}", answer.rows());
    for row in rows {
        assert_eq!(
            (&row["flags"], &row["bytes"], &row["daddr"]),
            (&"S".into(), &0.into(), &"127.0.0.1".into())
        );
        assert!(row["reason"].as_str().unwrap().ends_with("NO_SOCKET"), "{row}");
        assert!(row["location"].as_str().unwrap().starts_with("tcp_v4_rcv"), "{row}");
    }
}

/// The drops that the kernel counts for the UDP socket at a port.
fn udp_drops(port: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let local = format!(":{port:04X} ");
    let line = table.lines().find(|line| line.contains(&local)).expect("the socket");
    line.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn udpdrops_agrees_with_the_sockets_own_counter() {
    needs_tracing!();
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (port, closed_port) = (receiver.local_addr().unwrap().port(), closed.local_addr().unwrap().port());
    drop(closed);
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let running = Running::start(&["udpdrops"]);
    // Nobody reads: what the buffer does not hold is dropped.
    for _ in 0..1000 {
        sender.send_to(&[0; 1000], (Ipv4Addr::LOCALHOST, port)).unwrap();
    }
    for _ in 0..5 {
        sender.send_to(&[0; 10], (Ipv4Addr::LOCALHOST, closed_port)).unwrap();
    }
    wait_until("the buffer overflows", || udp_drops(port) > 0);
    let answer = running.stop().done();
    let (full, closed) = (rows_at(&answer, "dport", port), rows_at(&answer, "dport", closed_port));
    assert_eq!((full.len(), closed.len()), (1, 1), "{:?}", answer.rows());
    let drops = udp_drops(port);
    assert_eq!(full[0]["drops"], drops);
    assert_eq!(full[0]["bytes"], drops * 1000);
    assert!(full[0]["reason"].as_str().unwrap().ends_with("SOCKET_RCVBUFF"), "{}", full[0]);
    assert_eq!((&closed[0]["drops"], &closed[0]["bytes"]), (&5.into(), &50.into()));
    assert!(closed[0]["reason"].as_str().unwrap().ends_with("NO_SOCKET"), "{}", closed[0]);
}

#[test]
fn tcpsynbl_finds_the_queue_that_overflows() {
    needs_tracing!();
    if !needs_perl() {
        testkit::skipped!("perl is not installed");
    }
    let script = "use IO::Socket::INET; $|=1; \
        my $l = IO::Socket::INET->new(Listen=>1, LocalAddr=>'127.0.0.1') or die; \
        print $l->sockport, qq(\\n); <STDIN>";
    let mut server = Killed(
        Command::new("perl")
            .args(["-e", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().parse().unwrap();
    let running = Running::start(&["tcpsynbl", &format!("--port={port}")]);
    let to: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
    // A queue for one holds two; the third is ignored.
    let _queued = [TcpStream::connect(to).unwrap(), TcpStream::connect(to).unwrap()];
    TcpStream::connect_timeout(&to, Duration::from_millis(100)).unwrap_err();
    let answer = running.stop().done();
    let rows = answer.rows();
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = rows[0];
    assert_eq!((&row["lport"], &row["max"]), (&port.into(), &1.into()));
    assert_eq!(
        (&row["connections"], &row["peak"], &row["last_place"]),
        (&2.into(), &1.into(), &1.into()),
        "{row}"
    );
    let probes = bpf::KernelFacts::has(&kernel::facts::LiveFacts::new(), bpf::facts::Feature::Fentry);
    if probes {
        assert!(row["ignored_syns"].as_u64().unwrap() >= 1, "{row}");
    }
}

#[test]
fn qdisclat_measures_the_wait_for_a_slow_link() {
    needs_tracing!();
    if !needs_perl() {
        testkit::skipped!("perl is not installed");
    }
    let net = net!("qdisc");
    let shape = [
        "tc", "qdisc", "add", "dev", "va", "root", "tbf", "rate", "160kbit", "burst", "1600", "limit",
        "100000",
    ];
    let shaped = net.command(0, &shape).output().unwrap();
    if !shaped.status.success() {
        testkit::skipped!("no tbf: {}", String::from_utf8_lossy(&shaped.stderr));
    }
    net.ip(&["-n", &net.names[0], "neigh", "add", "10.99.0.9", "lladdr", "02:00:00:00:00:09", "dev", "va"])
        .unwrap();
    let running = Running::start(&["qdisclat", "--dev=va"]);
    // 20 frames of 1 042 bytes at 20 000 bytes a second: the last waits about a second.
    let script = "use IO::Socket::INET; \
        my $s = IO::Socket::INET->new(Proto=>'udp', PeerAddr=>'10.99.0.9', PeerPort=>9) or die; \
        $s->send('x' x 1000) for 1..20";
    assert!(net.command(0, &["perl", "-e", script]).status().unwrap().success());
    wait_until("all are sent", || {
        let output = net.command(0, &["tc", "-s", "qdisc", "show", "dev", "va"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("backlog 0b 0p")
    });
    let answer = running.stop().done();
    let map = answer.map("@usecs").as_object().unwrap();
    let (_, waits) =
        map.iter().find(|(key, _)| key.contains("va") && key.contains("tbf")).expect("va with tbf");
    // Neighbour discovery may add packets of its own.
    assert!((20..30).contains(&counted(waits)), "{map:?}");
    // Half of them wait for half a second and more; the sender may have been held up a little.
    assert!(counted_within(waits, 262_144, i64::MAX) >= 8, "{map:?}");
}

/// Packets that a device has received, as the kernel counts.
fn received_by(dev: &str) -> u64 {
    let path = format!("/sys/class/net/{dev}/statistics/rx_packets");
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn softnet_counts_what_the_loopback_device_receives() {
    needs_tracing!();
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = receiver.local_addr().unwrap();
    let before = received_by("lo");
    let running = Running::start(&["softnet"]);
    let begun = received_by("lo");
    for _ in 0..500 {
        receiver.send_to(&[0; 8], to).unwrap();
    }
    let inside = received_by("lo") - begun;
    let answer = running.stop().done();
    let around = received_by("lo") - before;
    let received = answer.rows_with(&[("dev", "lo".into())]);
    let received: u64 = received.iter().map(|row| row["received"].as_u64().unwrap_or(0)).sum();
    // Others may use the device too, before and after.
    assert!(inside >= 500 && (inside..=around).contains(&received), "{inside} {received} {around}");
    assert!(!answer.rows_with(&[("dev", "backlog".into())]).is_empty(), "{:?}", answer.rows());
}
