//! Five kinds of slow clients do not affect twenty working users.

use crate::site::Site;
use coracle_testing::harness::As;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// Time limit of a test.
const OVERALL: Duration = Duration::from_mins(8);
/// Time limit of a response for a user on the slowest machine.
const PATIENCE: Duration = Duration::from_mins(2);
const PEOPLE: usize = 20;
/// Local address of connections that are not slow.
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Code of a user.
const CODE: &str = r#"{"code": "6 * 7"}"#;

/// Kind of slowness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Starts the head of a request and sends a byte now and then.
    Head,
    /// Announces a form and sends the start of it.
    Form,
    /// Announces JSON and sends a byte now and then.
    Json,
    /// Requests a lot and reads nothing.
    Unread,
    /// Does nothing, or nothing after one request.
    Idle,
}

const KINDS: [Kind; 5] = [Kind::Head, Kind::Form, Kind::Json, Kind::Unread, Kind::Idle];

/// Attack and its results.
struct Attack {
    server: SocketAddr,
    /// Address of the slow clients.
    from: Ipv4Addr,
    /// Approximate time after which a closed connection is reopened.
    pause: Duration,
    stop: AtomicBool,
    open: AtomicUsize,
    most_open: AtomicUsize,
    begun: AtomicUsize,
    /// Number of connections that the server closed, by kind.
    closed: [AtomicUsize; KINDS.len()],
}

impl Attack {
    fn new(server: &str, from: Ipv4Addr, pause: Duration) -> Arc<Self> {
        Arc::new(Self {
            server: server.parse().unwrap(),
            from,
            pause,
            stop: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            closed: [const { AtomicUsize::new(0) }; KINDS.len()],
        })
    }

    fn has_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn closed(&self) -> [usize; KINDS.len()] {
        std::array::from_fn(|kind| self.closed[kind].load(Ordering::SeqCst))
    }

    /// Slow client, which reconnects whenever the server closes its connection.
    async fn slow_client(self: Arc<Self>, number: usize) {
        let place = number % KINDS.len();
        // Spread over time.
        tokio::time::sleep(self.pause.mul_f64(fastrand::f64())).await;
        while !self.has_stopped() {
            if let Ok(stream) = connect(self.from, self.server, KINDS[place] == Kind::Unread).await {
                self.begun.fetch_add(1, Ordering::SeqCst);
                let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
                self.most_open.fetch_max(open, Ordering::SeqCst);
                // Behind a proxy, each client has its own address.
                let client = format!("198.51.{}.{}", 100 + number / 250 % 100, 1 + number % 250);
                let is_closed = self.be_slow(stream, KINDS[place], number, &client).await;
                self.open.fetch_sub(1, Ordering::SeqCst);
                self.closed[place].fetch_add(usize::from(is_closed), Ordering::SeqCst);
            }
            let until = Instant::now() + self.pause.mul_f64(0.5 + fastrand::f64());
            while Instant::now() < until && !self.has_stopped() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }

    /// Returns whether the server closed the connection before the attack ended.
    async fn be_slow(&self, mut stream: TcpStream, kind: Kind, number: usize, client: &str) -> bool {
        let server = self.server;
        let head = |line: &str| format!("{line} HTTP/1.1\r\nhost: {server}\r\nx-forwarded-for: {client}\r\n");
        let json = "content-type: application/json\r\n";
        let form = "content-type: application/x-www-form-urlencoded\r\n";
        let first = match kind {
            Kind::Head => head("GET /sign-in"),
            Kind::Form => format!("{}{form}content-length: 50\r\n\r\nuser=", head("POST /sign-in")),
            Kind::Json => format!("{}{json}content-length: 9000\r\n\r\n{{", head("POST /api/auth/login")),
            Kind::Unread => format!("{}\r\n", head("GET /api/openapi.json")).repeat(300),
            Kind::Idle if number.is_multiple_of(2) => String::new(),
            Kind::Idle => format!("{}\r\n", head("GET /health")),
        };
        if stream.write_all(first.as_bytes()).await.is_err() {
            return true;
        }
        let mut answer = [0; 4096];
        while !self.has_stopped() {
            let second = tokio::time::sleep(Duration::from_secs(1));
            match kind {
                Kind::Unread => {
                    second.await;
                    if stream.write_all(b"\n").await.is_err() {
                        return true;
                    }
                }
                Kind::Head | Kind::Form | Kind::Json | Kind::Idle => tokio::select! {
                    read = stream.read(&mut answer) => if !matches!(read, Ok(1..)) {
                        return true;
                    },
                    () = second => {
                        let bit: &[u8] = match kind {
                            Kind::Head => b"x",
                            Kind::Json => b" ",
                            Kind::Form | Kind::Unread | Kind::Idle => b"",
                        };
                        if stream.write_all(bit).await.is_err() {
                            return true;
                        }
                    }
                },
            }
        }
        false
    }
}

async fn connect(from: Ipv4Addr, to: SocketAddr, has_no_room: bool) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if has_no_room {
        socket.set_recv_buffer_size(4096)?;
    }
    if from != HERE {
        socket.bind(SocketAddr::from((from, 0)))?;
    }
    socket.connect(to).await
}

/// Sends a request on a connection that may be reused; returns status and body.
async fn ask(stream: &mut TcpStream, head: &str, body: &str) -> std::io::Result<(u16, String)> {
    let cut = || std::io::Error::other("the answer is cut short");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await?;
    let mut read = Vec::new();
    let (mut end, mut length) = (None, 0);
    while end.is_none_or(|end| read.len() < end + length) {
        let mut part = [0; 8192];
        let count = stream.read(&mut part).await?;
        if count == 0 {
            return Err(cut());
        }
        read.extend_from_slice(&part[..count]);
        if end.is_none()
            && let Some(place) = read.windows(4).position(|four| four == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&read[..place]).to_ascii_lowercase();
            let told = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            (end, length) = (Some(place + 4), told.ok_or_else(cut)?);
        }
    }
    let text = String::from_utf8_lossy(&read).into_owned();
    let status = text.split(' ').nth(1).and_then(|number| number.parse().ok()).ok_or_else(cut)?;
    Ok((status, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
}

/// Runs code as a user until enough is done. Every other user reuses a connection.
async fn person(
    server: SocketAddr,
    key: String,
    number: usize,
    answers: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
) -> Result<Vec<Duration>, String> {
    let head = format!(
        "POST /api/executions HTTP/1.1\r\nhost: {server}\r\nx-forwarded-for: 203.0.113.{number}\r\n\
         authorization: Bearer {key}\r\ncontent-type: application/json\r\n"
    );
    let (mut kept, mut took) = (None, Vec::new());
    while !stop.load(Ordering::SeqCst) {
        let begun = Instant::now();
        let asked = async {
            let mut stream = match kept.take() {
                Some(stream) => stream,
                None => connect(HERE, server, false).await?,
            };
            let answer = ask(&mut stream, &head, CODE).await?;
            std::io::Result::Ok((stream, answer))
        };
        let answered = tokio::time::timeout(PATIENCE, asked).await.map_err(|_| "no answer in time".to_owned())?;
        let (stream, (status, body)) = answered.map_err(|error| format!("after {} answers: {error}", took.len()))?;
        if status != 200 || !body.contains("\"result\":42") {
            return Err(format!("{status}: {body}"));
        }
        took.push(begun.elapsed());
        answers.store(took.len(), Ordering::SeqCst);
        kept = Some(stream).filter(|_| number.is_multiple_of(2));
    }
    Ok(took)
}

/// Probes the server repeatedly.
async fn probe(server: SocketAddr, stop: Arc<AtomicBool>) -> Result<Vec<Duration>, String> {
    let mut took = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let begun = Instant::now();
        let asked = async {
            let mut stream = connect(HERE, server, false).await?;
            ask(&mut stream, &format!("GET /health HTTP/1.1\r\nhost: {server}\r\n"), "").await
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok((200, _))) => took.push(begun.elapsed()),
            other => return Err(format!("/health after {} answers: {other:?}", took.len())),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(took)
}

/// Opens an event stream without events.
async fn event_stream(server: SocketAddr, key: &str) -> TcpStream {
    let usual = format!(
        "host: {server}\r\nauthorization: Bearer {key}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\n"
    );
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let mut first = connect(HERE, server, false).await.unwrap();
    let request =
        format!("POST /mcp HTTP/1.1\r\n{usual}connection: close\r\ncontent-length: {}\r\n\r\n{hello}", hello.len());
    first.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).await.unwrap();
    let session =
        answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap_or_else(|| panic!("{answer}"));
    let mut stream = connect(HERE, server, false).await.unwrap();
    let request = format!(
        "GET /mcp HTTP/1.1\r\n{usual}mcp-session-id: {}\r\nmcp-protocol-version: 2025-06-18\r\n\r\n",
        session.trim()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 2048];
    let count = stream.read(&mut head).await.unwrap();
    let head = String::from_utf8_lossy(&head[..count]).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200") && head.contains("text/event-stream"), "{head}");
    stream
}

/// Whether the server keeps the connection open.
fn is_open(stream: &TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.try_read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

fn median(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

/// Starts a server with this number of users.
fn site(people: usize) -> Site {
    let people: Vec<String> = (0..people).map(|number| format!("person{number}")).collect();
    Site::new(As::current(), &people.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Restarts the server with these settings.
fn set(site: &mut Site, settings: &str) {
    site.stop();
    let file = site.coracle.home().join("coracle.yaml");
    fs::write(&file, settings).unwrap();
    site.coracle.own(&file);
    site.start();
}

fn resident(site: &Site) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", site.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

/// Size of an attack, and what must happen meanwhile.
struct Measure {
    connections: usize,
    pause: Duration,
    /// Number of responses for each user.
    answers: usize,
    /// Number of slow connections of each kind that the server closes.
    closed: usize,
    lasts: Duration,
}

/// Runs many slow clients from one address while users work from another.
fn people_work_while(site: &Site, from: Ipv4Addr, measure: &Measure) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server: SocketAddr = site.address().parse().unwrap();
    runtime.block_on(async {
        let attack = Attack::new(site.address(), from, measure.pause);
        let stream = event_stream(server, &site.keys["person0"]).await;
        let mut slow = JoinSet::new();
        for number in 0..measure.connections {
            slow.spawn(Arc::clone(&attack).slow_client(number));
        }
        let begun = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let probed = tokio::spawn(probe(server, Arc::clone(&stop)));
        let (mut people, mut answers) = (JoinSet::new(), Vec::<Arc<AtomicUsize>>::new());
        for number in 0..PEOPLE {
            let key = site.keys[&format!("person{number}")].clone();
            answers.push(Arc::default());
            people.spawn(person(server, key, number, Arc::clone(&answers[number]), Arc::clone(&stop)));
        }
        // Until enough has happened.
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let has_closed = attack.closed().iter().all(|closed| *closed >= measure.closed);
            let have_answers = answers.iter().all(|answers| answers.load(Ordering::SeqCst) >= measure.answers);
            if has_closed && have_answers && begun.elapsed() >= measure.lasts {
                break;
            }
            if let Some(person) = people.try_join_next() {
                panic!("a person got an error: {:?}", person.unwrap());
            }
            assert!(begun.elapsed() < OVERALL, "closed by kind: {:?}", attack.closed());
            assert!(!probed.is_finished(), "{:?}", probed.await);
        }
        let lasted = begun.elapsed();
        let memory = resident(site);
        stop.store(true, Ordering::SeqCst);
        let mut waits = Vec::new();
        while let Some(person) = people.join_next().await {
            let took = person.unwrap().unwrap_or_else(|error| panic!("a person got an error: {error}"));
            waits.extend(took);
        }
        let mut probes = probed.await.unwrap().unwrap();
        assert!(is_open(&stream), "an idle event stream is not a slow client");
        attack.stop.store(true, Ordering::SeqCst);
        while slow.join_next().await.is_some() {}
        let ((half, most), (half_probe, most_probe)) = (median(&mut waits), median(&mut probes));
        println!(
            "{} slow clients from {from} for {lasted:.1?}: {} connections, at most {} open at once, closed by kind {:?}",
            measure.connections,
            attack.begun.load(Ordering::SeqCst),
            attack.most_open.load(Ordering::SeqCst),
            attack.closed(),
        );
        println!(
            "  {PEOPLE} people: {} answers, no error, median {half:.1?}, longest {most:.1?}; {} probes, median \
             {half_probe:.1?}, longest {most_probe:.1?}; resident {memory} MiB",
            waits.len(),
            probes.len(),
        );
    });
}

/// A new connection has a few seconds to send its request before other new connections displace it, which is far more
/// than a busy machine needs.
const FEW: Measure =
    Measure { connections: 400, pause: Duration::from_secs(4), answers: 2, closed: 20, lasts: Duration::from_secs(3) };
const MANY: Measure = Measure {
    connections: 10_000,
    pause: Duration::from_secs(10),
    answers: 5,
    closed: 500,
    lasts: Duration::from_mins(1),
};

/// Address of other clients.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Slow clients with their own address, and then all clients behind one proxy.
fn users_are_not_affected(connections: &str, measure: &Measure) {
    let mut site = site(PEOPLE);
    set(&mut site, &format!("server: {{ {connections} }}\n"));
    people_work_while(&site, ELSEWHERE, measure);
    set(&mut site, &format!("server: {{ {connections} trusted_proxies: [127.0.0.1] }}\n"));
    people_work_while(&site, HERE, measure);
}

#[test]
fn slow_clients_do_not_affect_users() {
    users_are_not_affected("max_connections: 256,", &FEW);
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn soak_ten_thousand_slow_clients_do_not_affect_users() {
    users_are_not_affected("", &MANY);
}

/// With room for all connections, each one is closed only for its slowness, and one within the limits is served.
#[test]
fn slow_clients_are_dropped_even_if_there_is_room() {
    let site = site(2);
    let server: SocketAddr = site.address().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let attack = Attack::new(site.address(), HERE, Duration::from_millis(10));
        let stream = event_stream(server, &site.keys["person0"]).await;
        let mut slow = JoinSet::new();
        for number in 0..10 {
            slow.spawn(Arc::clone(&attack).slow_client(number));
        }
        let key = &site.keys["person1"];
        let code = format!("{{\"code\": \"len('{}')\"}}", "x".repeat(96 << 10));
        let mut steady = connect(HERE, server, false).await.unwrap();
        let head = format!(
            "POST /api/executions HTTP/1.1\r\nhost: {server}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            code.len()
        );
        steady.write_all(head.as_bytes()).await.unwrap();
        let (first, rest) = code.as_bytes().split_at(1);
        steady.write_all(first).await.unwrap();
        // Longer than a client may send nothing.
        for part in rest.chunks(8 << 10) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            steady.write_all(part).await.unwrap();
        }
        let mut answer = vec![0; 64 << 10];
        let count = steady.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..count]);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"result\":98304"), "{answer}");
        // A body that arrives too slowly gets an error.
        let mut form = connect(HERE, server, false).await.unwrap();
        let head = format!(
            "POST /sign-in HTTP/1.1\r\nhost: {server}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: 50\r\n\r\nuser="
        );
        form.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, form.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("slow_request"), "{answer}");
        let begun = Instant::now();
        while attack.closed().contains(&0) {
            assert!(begun.elapsed() < OVERALL, "closed by kind: {:?}", attack.closed());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(is_open(&stream), "an idle event stream is not a slow client");
        attack.stop.store(true, Ordering::SeqCst);
        while slow.join_next().await.is_some() {}
    });
}
