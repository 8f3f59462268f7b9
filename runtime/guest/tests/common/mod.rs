//! A stand-in for the supervisor: compiles with the built `act-compile`, runs the built `act-guest`, answers questions.
//!
//! Components come from the folder `ACT_TEST_GUESTS`; without them a test prints a skip.

#![allow(dead_code, reason = "each test program uses a part")]

use act_lockdown::profile::Profile;
use act_policy::{Anchors, Capability, Engine, Flag, KernelPlan, Layers, Manifest, Mounts, Policy, Shorthand};
use act_wire::{
    Channel, FileGrant, GuestError, GuestLimits, Lockdown, Observed, Preopen, Record, Report, Start, ToGuest,
    ToSupervisor, Tool, ToolEvent,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::HashMap;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_mins(1);

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_act-guest")).with_file_name(name)
}

/// The compiled component, or `None` after printing why not.
pub(crate) fn compiled(name: &str) -> Option<&'static [u8]> {
    static DONE: OnceLock<Mutex<HashMap<String, &'static [u8]>>> = OnceLock::new();
    let Some(folder) = std::env::var_os("ACT_TEST_GUESTS").map(PathBuf::from) else {
        println!("SKIP: ACT_TEST_GUESTS names no folder of components");
        return None;
    };
    let source = folder.join(format!("{name}.wasm"));
    let compiler = program("act-compile");
    if !source.exists() || !compiler.exists() {
        println!("SKIP: {} or {} is missing", source.display(), compiler.display());
        return None;
    }
    let mut done = DONE.get_or_init(Mutex::default).lock().unwrap();
    if let Some(bytes) = done.get(name) {
        return Some(bytes);
    }
    let input = std::fs::File::open(&source).unwrap();
    let output = Command::new(compiler).stdin(input).env_clear().output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes: &'static [u8] = output.stdout.leak();
    done.insert(name.to_owned(), bytes);
    Some(bytes)
}

/// A policy whose ceiling is wide and whose grant is the flags, such as `+fs=/tmp/x/**` and `-fs=/tmp/x/secret/**`.
pub(crate) fn policy(flags: &[String]) -> Policy {
    let anchors = Anchors { home: None, directory: None, stars_at_root: false };
    let parse = |flag, token: &str| Shorthand::parse(flag, token, &anchors).unwrap();
    let ceiling = ["fs=/**", "sockets=127.0.0.0/8", "sockets=*.test"];
    let mut capabilities: Vec<Capability> = Vec::new();
    for rule in
        ceiling.iter().map(|t| parse(if t.contains('/') && t.starts_with('s') { Flag::Deny } else { Flag::Allow }, t))
    {
        let constraint = rule.rule.unwrap();
        match capabilities.iter_mut().find(|c| c.class == rule.class) {
            Some(capability) => capability.constraints.as_mut().unwrap().push(constraint),
            None => capabilities.push(Capability {
                class: rule.class,
                description: None,
                constraints: Some(vec![constraint]),
                mounts: Mounts::default(),
                json: "{}".into(),
            }),
        }
    }
    let manifest = Manifest { name: "t".into(), version: "0".into(), description: None, capabilities };
    let flags: Vec<_> = flags
        .iter()
        .map(|f| parse(if f.starts_with('+') { Flag::Allow } else { Flag::Deny }, f.get(1..).unwrap()))
        .collect();
    Policy::resolve(&manifest, &Layers { flags: &flags, ..Layers::default() }).unwrap().0
}

/// How a child is run.
pub(crate) struct Setup {
    pub(crate) program: &'static str,
    pub(crate) flags: Vec<String>,
    pub(crate) shown: (String, String),
    pub(crate) memory: u64,
    pub(crate) profile: Profile,
    pub(crate) landlock: bool,
    /// The mode of every class becomes `ask`.
    pub(crate) ask: bool,
}

impl Setup {
    pub(crate) fn new(flags: &[String]) -> Self {
        let profile = Profile { files: true, files_write: true, tcp: true, udp: true, listen: true };
        let shown = ("/".into(), "/".into());
        Self {
            program: "act-guest",
            flags: flags.to_vec(),
            shown,
            memory: 1 << 30,
            profile,
            landlock: true,
            ask: false,
        }
    }

    pub(crate) fn start(self, component: &[u8]) -> Guest {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let begun = Instant::now();
        let child = Command::new(program(self.program))
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .env_clear()
            .spawn()
            .unwrap();
        let mut policy = policy(&self.flags);
        if self.ask {
            policy.classes.iter_mut().for_each(|class| class.mode = act_policy::Mode::Ask);
        }
        let plan = KernelPlan::new(&Engine::compile(policy.clone()).unwrap());
        let mut files: Vec<_> =
            plan.files.into_iter().map(|tree| FileGrant { path: root(tree.path), write: tree.write }).collect();
        if !self.landlock {
            files = vec![FileGrant { path: b"/".to_vec(), write: true }];
        }
        let lockdown = Lockdown {
            files,
            connect_tcp: None,
            bind_tcp: None,
            seccomp: self.profile.program().unwrap(),
            required: true,
        };
        let limits = GuestLimits { memory: self.memory, output: 1 << 20, handles: 1000 };
        let preopens = vec![Preopen { guest: self.shown.0, host: self.shown.1.into_bytes() }];
        let start = Start { policy, limits, preopens };
        let channel = Channel::new(ours, 16 << 20);
        let file = sealed(component);
        channel.send_with(&ToGuest::Start(Box::new(start)), &[file.as_fd()]).unwrap();
        let mut guest = Guest {
            child,
            channel,
            next: 0,
            records: Vec::new(),
            human: false,
            asked: Vec::new(),
            names: HashMap::new(),
            report: None,
            ready: Duration::ZERO,
        };
        guest.channel.send(&ToGuest::Lock(lockdown)).unwrap();
        match guest.receive() {
            ToSupervisor::Ready(report) => guest.report = Some(report),
            other => panic!("{other:?}"),
        }
        guest.ready = begun.elapsed();
        guest
    }
}

fn root(path: Vec<u8>) -> Vec<u8> {
    if path.is_empty() { b"/".to_vec() } else { path }
}

fn sealed(bytes: &[u8]) -> OwnedFd {
    let fd = memfd_create("component", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes).unwrap();
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

/// A running child.
pub(crate) struct Guest {
    child: Child,
    channel: Channel,
    next: u32,
    /// All records so far.
    pub(crate) records: Vec<Record>,
    /// What the human answers, and was asked.
    pub(crate) human: bool,
    pub(crate) asked: Vec<act_policy::Request>,
    /// What names resolve to.
    pub(crate) names: HashMap<String, Vec<IpAddr>>,
    pub(crate) report: Option<Report>,
    /// From before the spawn to `Ready`.
    pub(crate) ready: Duration,
}

impl Guest {
    fn receive(&mut self) -> ToSupervisor {
        self.channel.receive(Some(Instant::now() + PATIENCE)).unwrap().0
    }

    pub(crate) fn send(&self, message: &ToGuest) {
        self.channel.send(message).unwrap();
    }

    pub(crate) fn go(&self) {
        self.send(&ToGuest::Go);
    }

    pub(crate) fn status(&self, key: &str) -> String {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':').map(str::trim));
        line.unwrap_or_default().to_owned()
    }

    /// The next message that is neither a record nor a question.
    pub(crate) fn message(&mut self) -> ToSupervisor {
        loop {
            match self.receive() {
                ToSupervisor::Records(records) => self.records.extend(records),
                ToSupervisor::Resolve { ask, host } => {
                    let addresses = self.names.get(&host).cloned().unwrap_or_default();
                    self.send(&ToGuest::Resolved { ask, addresses });
                }
                ToSupervisor::Ask { ask, request } => {
                    self.send(&ToGuest::Answer { ask, allow: self.human });
                    self.asked.push(request);
                }
                other => return other,
            }
        }
    }

    pub(crate) fn list(&mut self) -> Result<Vec<Tool>, GuestError> {
        self.next += 1;
        self.send(&ToGuest::ListTools { call: self.next, metadata: vec![] });
        match self.message() {
            ToSupervisor::Tools { call, result } if call == self.next => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn begin(&mut self, tool: &str, arguments: &[(&str, ciborium::Value)]) -> u32 {
        self.next += 1;
        let map = arguments.iter().map(|(k, v)| (ciborium::Value::from(*k), v.clone())).collect();
        let mut bytes = Vec::new();
        ciborium::into_writer(&ciborium::Value::Map(map), &mut bytes).unwrap();
        self.send(&ToGuest::CallTool { call: self.next, name: tool.into(), arguments: bytes, metadata: vec![] });
        self.next
    }

    /// Call a tool and wait: its output as text, or its error.
    pub(crate) fn call(&mut self, tool: &str, arguments: &[(&str, ciborium::Value)]) -> Result<String, String> {
        let mine = self.begin(tool, arguments);
        let (mut text, mut error) = (String::new(), None);
        loop {
            match self.message() {
                ToSupervisor::Event { call, event: ToolEvent::Content(part) } if call == mine => {
                    text.push_str(&String::from_utf8_lossy(&part.data));
                }
                ToSupervisor::Event { call, event: ToolEvent::Error(e) } if call == mine => error = Some(e.message),
                ToSupervisor::Done { call } if call == mine => return error.map_or(Ok(text), Err),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Call with text arguments.
    pub(crate) fn text(&mut self, tool: &str, arguments: &[(&str, &str)]) -> Result<String, String> {
        let arguments: Vec<_> = arguments.iter().map(|(k, v)| (*k, ciborium::Value::from(*v))).collect();
        self.call(tool, &arguments)
    }

    /// Whether a denial of this access and path is on record, at whatever layer.
    pub(crate) fn denied(&self, access: act_policy::Access, path: &str) -> bool {
        let wanted = act_policy::Request::File { access, path: path.as_bytes().to_vec() };
        self.records.iter().any(|record| {
            let refused = match record.outcome {
                Observed::Judged(verdict) => !verdict.allowed(),
                Observed::Answered(allow) => !allow,
                Observed::KernelRefused(_) => true,
            };
            record.request == wanted && refused
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
