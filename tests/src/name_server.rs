//! A DNS server over UDP and TCP that knows what was asked of it, and answers by a script.

use crate::network::NAME_SERVER;
use async_trait::async_trait;
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::proto::op::{Header, HeaderCounts, Metadata, ResponseCode};
use hickory_server::proto::rr::rdata::CNAME;
use hickory_server::proto::rr::{Name, RData, Record, RecordType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use std::collections::BTreeMap;
use std::iter::empty;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;

/// A name and its answers: the first question of a type since the last [`NameServer::take`] gets the first answer, and so
/// on; the last one stays. A name that is not here does not exist. An answer is one of
///
/// | text | answer |
/// |---|---|
/// | `127.0.0.1 ::1` | the addresses that the question's type has |
/// | `=other.test 127.0.0.1` | an alias (CNAME), and records of that other name |
/// | `servfail` | that error |
/// | `silence` | none |
pub type Zone<'a> = &'a [(&'a str, &'a [&'a str])];

/// A name server at [`NAME_SERVER`], in the network of the test.
#[derive(Debug)]
pub struct NameServer {
    asked: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Serve a zone.
    #[track_caller]
    pub fn start(zone: Zone) -> Self {
        let answers = |list: &[&str]| list.iter().map(|answer| (*answer).to_owned()).collect();
        let zone = zone.iter().map(|(name, list)| ((*name).to_owned(), answers(list))).collect();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script = Script { zone, asked: asked.clone() };
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let mut server = Server::new(script);
                server.register_socket(UdpSocket::bind((NAME_SERVER, 53)).await.unwrap());
                let listener = TcpListener::bind((NAME_SERVER, 53)).await.unwrap();
                server.register_listener(listener, Duration::from_secs(5), 16);
                ready.send(()).unwrap();
                let _ = stopped.await;
            });
        });
        is_ready.recv().expect("the name server did not start");
        Self { asked, stop: Some(stop), thread: Some(thread) }
    }

    /// What was asked since the last call, sorted: `A good.test udp`.
    pub fn take(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.sort();
        asked
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Script {
    zone: BTreeMap<String, Vec<String>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// What to answer; noted as asked.
    fn next(&self, line: String, name: &str) -> Option<&str> {
        let mut asked = self.asked.lock().unwrap();
        // Asked again over TCP, it is the same question.
        let before = asked.iter().filter(|earlier| **earlier == line).count();
        asked.push(line);
        let answers = self.zone.get(name)?;
        answers.get(before).or(answers.last()).map(String::as_str)
    }
}

fn records(name: &str, kind: RecordType, answer: &str) -> Vec<Record> {
    let absolute = |name: &str| Name::from_ascii(format!("{name}.")).unwrap();
    let mut owner = absolute(name);
    let mut records = Vec::new();
    for word in answer.split(' ') {
        let data = match (word.strip_prefix('='), word.parse()) {
            (Some(target), _) => RData::CNAME(CNAME(absolute(target))),
            (None, Ok(IpAddr::V4(address))) => RData::A(address.into()),
            (None, Ok(IpAddr::V6(address))) => RData::AAAA(address.into()),
            (None, Err(_)) => panic!("no answer: `{answer}`"),
        };
        if let RData::CNAME(CNAME(target)) = &data {
            let target = target.clone();
            records.push(Record::from_rdata(std::mem::replace(&mut owner, target), 0, data));
        } else if data.record_type() == kind {
            records.push(Record::from_rdata(owner.clone(), 0, data));
        }
    }
    records
}

#[async_trait]
impl RequestHandler for Script {
    async fn handle_request<R: ResponseHandler, T: Time>(&self, request: &Request, mut to: R) -> ResponseInfo {
        let query = request.request_info().unwrap().query;
        let (kind, name) = (query.query_type(), query.name().to_string());
        let name = name.trim_end_matches('.');
        let answer = self.next(format!("{kind} {name} {}", request.protocol()), name);
        let mut metadata = Metadata::response_from_request(&request.metadata);
        // Without it an empty answer is taken for a referral.
        metadata.recursion_available = true;
        let records = match answer {
            Some("silence") => return Header { metadata, counts: HeaderCounts::default() }.into(),
            Some("servfail") => {
                metadata.response_code = ResponseCode::ServFail;
                Vec::new()
            }
            Some(answer) => records(name, kind, answer),
            None => {
                metadata.response_code = ResponseCode::NXDomain;
                Vec::new()
            }
        };
        let response = MessageResponseBuilder::from_message_request(request);
        to.send_response(response.build(metadata, &records, empty(), empty(), empty())).await.unwrap()
    }
}
