//! The policy as `act-guest` has it: decide, keep a record, send the records in lots.

use act_host::{Answer, Certificates, Gate};
use act_policy::{Anchors, Engine, Flag, Layers, Manifest, Policy, Reason, Request, Shorthand, Verdict};
use act_wire::{Bounded, Channel, Observed, Purpose, Record, Secret, SecretInfo, SecretRefusal, ToSupervisor};
use ciborium::cbor;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::net::IpAddr;
use std::sync::Mutex;

/// As many records go in one message in `act-guest`.
const RECORDS: usize = 256;

/// The engine of a component with a wide ceiling and these flags; `--deny` before a token makes it one.
pub fn policy(flags: &[&str]) -> Engine {
    let ceiling = cbor!({ "std" => { "name" => "bench", "version" => "1", "capabilities" => {
        "wasi:filesystem" => { "constraints" => [{ "path" => "/**", "mode" => "rw" }] },
        "wasi:http" => { "constraints" => [{ "cidr" => "0.0.0.0/0" }, { "host" => "*" }] },
    } } });
    let mut cbor = Vec::new();
    ciborium::into_writer(&ceiling.unwrap(), &mut cbor).unwrap();
    let manifest = Manifest::decode(&cbor, None).unwrap();
    let anchors = Anchors::default();
    let flags: Vec<_> = flags
        .iter()
        .map(|text| match text.strip_prefix("--deny ") {
            Some(token) => Shorthand::parse(Flag::Deny, token, &anchors).unwrap(),
            None => Shorthand::parse(Flag::Allow, text, &anchors).unwrap(),
        })
        .collect();
    let layers = Layers { flags: &flags, ..Layers::default() };
    Engine::compile(Policy::resolve(&manifest, &layers).unwrap().0).unwrap()
}

pub struct PolicyGate {
    engine: Engine,
    outbox: Mutex<(Vec<Record>, Channel)>,
}

impl PolicyGate {
    pub fn new(engine: Engine) -> Self {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.unwrap();
        std::thread::spawn(move || {
            let mut channel = Channel::new(theirs, 1 << 24);
            while channel.receive_blocking::<ToSupervisor>().is_ok() {}
        });
        Self { engine, outbox: Mutex::new((Vec::new(), Channel::new(ours, 0))) }
    }

    fn record(&self, request: Request, outcome: Observed) {
        let (records, channel) = &mut *self.outbox.lock().unwrap();
        records.push(Record { request, outcome });
        if records.len() >= RECORDS {
            channel.send(&ToSupervisor::Records(Bounded(std::mem::take(records)))).unwrap();
        }
    }
}

fn never<T>() -> Answer<T> {
    panic!("nothing is asked here")
}

impl Gate for PolicyGate {
    fn judge(&self, request: Request) -> Verdict {
        let verdict = self.engine.decide(&request);
        self.record(request, Observed::Judged(verdict));
        verdict
    }

    fn peek(&self, request: &Request) -> Verdict {
        self.engine.decide(request)
    }

    fn refused(&self, request: Request, reason: Reason) {
        self.record(request, Observed::Judged(Verdict::deny(reason)));
    }

    fn kernel_refused(&self, request: Request, errno: i32) {
        self.record(request, Observed::KernelRefused(errno));
    }

    fn ask(&self, _: Request) -> Answer<bool> {
        never()
    }

    fn ask_about(&self, _: Request, _: String) -> Answer<bool> {
        never()
    }

    fn secret(&self, _: String, _: String, _: String) -> Answer<Result<Secret, SecretRefusal>> {
        never()
    }

    fn secrets(&self) -> Answer<Result<Vec<SecretInfo>, SecretRefusal>> {
        never()
    }

    fn resolve(&self, _: String, _: Purpose) -> Answer<Vec<IpAddr>> {
        never()
    }

    fn roots(&self) -> Answer<Certificates> {
        never()
    }

    fn whole_subtree_writable(&self, path: &[u8]) -> bool {
        self.engine.whole_subtree_writable(path)
    }
}
