//! The messages themselves.

use crate::bounded::{Bounded, bounded};
use crate::secret::{Secret, SecretInfo, SecretRefusal};
use act_policy::{Policy, Request, Verdict};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Version of this protocol; both sides refuse any other.
pub const VERSION: u8 = 4;

/// Number of a call, chosen by the supervisor and never reused in a run.
pub type CallId = u32;
/// Number of a question that the child asks the supervisor, chosen by the child.
pub type AskId = u32;

/// From the supervisor to the child.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToGuest {
    /// First message, sent with the sealed memfd that holds the compiled component and, where there is a broker for
    /// files, the socket to it.
    Start(Box<Start>),
    /// What the child now gives up, for good. It comes when the supervisor knows which kernel layers there are.
    Lock(Lockdown),
    /// The supervisor has checked the child's confinement; the component may run.
    Go,
    /// List the component's tools.
    ListTools {
        /// Answered by [`ToSupervisor::Tools`] with the same number.
        call: CallId,
        /// Metadata: key and CBOR value.
        metadata: Vec<(String, Vec<u8>)>,
    },
    /// Call a tool.
    CallTool {
        /// Answered by any number of [`ToSupervisor::Event`] and one [`ToSupervisor::Done`].
        call: CallId,
        /// Tool name.
        name: String,
        /// Arguments, deterministic CBOR (RFC 8949 §4.2).
        arguments: Vec<u8>,
        /// Metadata: key and CBOR value.
        metadata: Vec<(String, Vec<u8>)>,
    },
    /// Tell the JSON Schema of the arguments that open a session.
    SessionSchema {
        /// Answered by [`ToSupervisor::SessionSchema`] with the same number.
        call: CallId,
        /// Metadata: key and CBOR value.
        metadata: Vec<(String, Vec<u8>)>,
    },
    /// Open a session.
    OpenSession {
        /// Answered by [`ToSupervisor::SessionOpened`] with the same number.
        call: CallId,
        /// Arguments: name and deterministic CBOR value.
        arguments: Vec<(String, Vec<u8>)>,
        /// Metadata: key and CBOR value.
        metadata: Vec<(String, Vec<u8>)>,
    },
    /// Close a session.
    CloseSession {
        /// Answered by [`ToSupervisor::Done`] with the same number.
        call: CallId,
        /// The session's id.
        session: String,
    },
    /// Answer to [`ToSupervisor::Secret`].
    Secret {
        /// The question's number.
        ask: AskId,
        /// The secret, or why there is none.
        result: Result<Secret, SecretRefusal>,
    },
    /// Answer to [`ToSupervisor::Secrets`].
    Secrets {
        /// The question's number.
        ask: AskId,
        /// What is stored, or why that cannot be told.
        result: Result<Vec<SecretInfo>, SecretRefusal>,
    },
    /// Answer to [`ToSupervisor::Resolve`].
    Resolved {
        /// The question's number.
        ask: AskId,
        /// Addresses that the policy and the kernel tables now admit; empty when the name has none.
        addresses: Vec<IpAddr>,
    },
    /// Answer to [`ToSupervisor::Roots`].
    Roots {
        /// The question's number.
        ask: AskId,
        /// Certificates, each in DER; empty where there are none or `https` cannot be granted.
        certificates: Vec<Vec<u8>>,
    },
    /// Answer to [`ToSupervisor::Ask`].
    Answer {
        /// The question's number.
        ask: AskId,
        /// Whether the operation may go on.
        allow: bool,
    },
}

/// Everything that the child needs before it locks itself down.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    /// The effective policy; the child compiles it and judges every operation by it.
    pub policy: Policy,
    /// Bounds inside the child.
    pub limits: GuestLimits,
    /// Directories shown to the component.
    pub preopens: Vec<Preopen>,
    /// Subtrees in which the child does operations on files itself; what is elsewhere it leaves to the broker.
    pub direct: Vec<FileGrant>,
}

/// One directory shown to the component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preopen {
    /// Path inside the component.
    pub guest: String,
    /// Absolute host path, as bytes.
    pub host: Vec<u8>,
}

/// Bounds that the guest process enforces on the component.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct GuestLimits {
    /// Most bytes of linear memory, all memories together.
    pub memory: u64,
    /// Most bytes that one call may return.
    pub output: u64,
    /// Most entries in the resource table (open handles).
    pub handles: u32,
}

/// A subtree that Landlock opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileGrant {
    /// Absolute host path of a directory, links resolved, as bytes.
    pub path: Vec<u8>,
    /// Whether writing is included.
    pub write: bool,
}

/// What a child enforces on itself before the component runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lockdown {
    /// Landlock file grants.
    pub files: Vec<FileGrant>,
    /// TCP ports that Landlock lets the child connect to; `None`: any port (the eBPF hooks know the addresses).
    pub connect_tcp: Option<Vec<u16>>,
    /// TCP ports that Landlock lets the child bind; `None`: any port.
    pub bind_tcp: Option<Vec<u16>>,
    /// The seccomp program as raw `sock_filter` instructions, built once by the supervisor.
    pub seccomp: Vec<u64>,
    /// Whether a missing Landlock is an error.
    pub required: bool,
}

/// What the child says it enforced. The supervisor checks it against `/proc` before [`ToGuest::Go`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Landlock ABI enforced, 0 for none.
    pub landlock_abi: u32,
    /// Whether the ruleset was enforced in full for that ABI.
    pub landlock_full: bool,
    /// Whether the seccomp program was installed on all threads.
    pub seccomp: bool,
}

/// The child's report that it is locked down and ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What was enforced.
    pub confinement: Confinement,
    /// Microseconds from the child's `main` to: `Start` read, component mapped, linked, locked down.
    pub phases: [u32; 4],
}

/// Kind of the error where the component hit a limit that the guest program holds. It begins as no component's may.
pub const LIMIT: &str = "act:limit";
/// What no kind of a component's own may begin with.
pub const RESERVED: &str = "act:";
/// Kind of the error where no instance of the component could be made.
pub const NOT_STARTED: &str = "act:not-started";

/// An error of the component model level, with a kind of the ACT protocol (`std:internal`, …).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestError {
    /// `std:not-found`, `std:invalid-args`, `std:timeout`, `std:capability-denied`, `std:internal` or the tool's own.
    pub kind: String,
    /// Text for people; untrusted.
    pub message: String,
}

/// One tool of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Name.
    pub name: String,
    /// Description, one language picked.
    pub description: String,
    /// JSON Schema of the arguments, as text.
    pub parameters_schema: String,
    /// Metadata: key and CBOR value.
    #[serde(deserialize_with = "bounded::<_, _, 1024>")]
    pub metadata: Vec<(String, Vec<u8>)>,
}

/// A piece of a tool's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentPart {
    /// The bytes.
    pub data: Vec<u8>,
    /// MIME type, `application/cbor` when absent.
    pub mime_type: Option<String>,
    /// Metadata: key and CBOR value.
    #[serde(deserialize_with = "bounded::<_, _, 1024>")]
    pub metadata: Vec<(String, Vec<u8>)>,
}

/// An event of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolEvent {
    /// Output.
    Content(ContentPart),
    /// The call failed; nothing follows.
    Error(GuestError),
}

/// How an observed operation ended at layer 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observed {
    /// Judged by the policy.
    Judged(Verdict),
    /// Mode ask: the supervisor answered this.
    Answered(bool),
    /// Layer 1 let it pass and the kernel refused it with this errno (Landlock, seccomp or an eBPF hook).
    KernelRefused(i32),
}

/// What the addresses of a name are for: each address is judged for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// The component's own sockets.
    Sockets,
    /// A request of `wasi:http`.
    Http {
        /// Method.
        method: String,
        /// `http` or `https`.
        scheme: String,
        /// Port.
        port: u16,
    },
}

/// One operation that the child judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What was asked.
    pub request: Request,
    /// What came of it.
    pub outcome: Observed,
}

/// From the child to the supervisor. Hostile until proven otherwise.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// Locked down and ready.
    Ready(Report),
    /// Could not start; one line.
    Failed {
        /// The layer or step that failed: `landlock`, `seccomp`, `component`, `protocol`.
        step: String,
        /// Text.
        message: String,
    },
    /// Tools of the component.
    Tools {
        /// The call's number.
        call: CallId,
        /// The tools, or the component's error.
        result: Result<Bounded<Tool, 4096>, GuestError>,
    },
    /// An event of a call.
    Event {
        /// The call's number.
        call: CallId,
        /// The event.
        event: ToolEvent,
    },
    /// The schema of session arguments.
    SessionSchema {
        /// The call's number.
        call: CallId,
        /// JSON Schema as text, or the component's error.
        result: Result<String, GuestError>,
    },
    /// A session was opened.
    SessionOpened {
        /// The call's number.
        call: CallId,
        /// Its id, or the component's error.
        result: Result<String, GuestError>,
    },
    /// The instance trapped: its sessions are gone with it.
    Lost,
    /// A call is over.
    Done {
        /// The call's number.
        call: CallId,
    },
    /// Operations judged since the last such message, in order.
    Records(Bounded<Record, 1024>),
    /// Resolve a name: the supervisor judges, resolves, filters, opens the kernel tables, then answers.
    Resolve {
        /// Number of the question.
        ask: AskId,
        /// The name as the guest wrote it.
        host: String,
        /// What for.
        purpose: Purpose,
    },
    /// The certificates of the system that servers are checked against: the child cannot read them itself.
    Roots {
        /// Number of the question.
        ask: AskId,
    },
    /// Mode ask: a human decides.
    Ask {
        /// Number of the question.
        ask: AskId,
        /// The operation.
        request: Request,
        /// What the component says about it, empty for most; bounded, untrusted.
        words: String,
    },
    /// Read a credential: the supervisor judges, asks where the policy says so, reads its store, then answers.
    Secret {
        /// Number of the question.
        ask: AskId,
        /// The session in which the component asks.
        session: String,
        /// The credential's key.
        key: String,
        /// Why, in the component's words; bounded, untrusted.
        words: String,
    },
    /// Tell which of its declared credentials are stored.
    Secrets {
        /// Number of the question.
        ask: AskId,
    },
}
