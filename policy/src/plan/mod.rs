//! What the kernel layers are told: the policy lowered to file subtrees and address tables.

mod files;
mod net;

pub(crate) use files::subtrees;

use crate::engine::Engine;
use crate::request::{Protocol, Reason, RuleId, Verdict};
use ipnet::IpNet;

/// The policy as the kernel layers enforce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPlan {
    /// Where something may be opened: exact subtrees for Landlock, areas of the broker.
    pub files: Vec<Subtree>,
    /// Tables for the eBPF hooks.
    pub net: NetPlan,
}

/// A subtree in which something may be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// Absolute path; empty for the root.
    pub path: Vec<u8>,
    /// Whether writing is included.
    pub write: bool,
    /// Whether the rules say the same as the subtree: no glob below it, no deny inside, nothing to ask. Landlock opens
    /// such a subtree and nothing else; in any other the broker opens each file.
    pub exact: bool,
}

/// The network side of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetPlan {
    /// Whether any TCP connection can be allowed.
    pub tcp: bool,
    /// Whether any UDP datagram can be allowed.
    pub udp: bool,
    /// The only TCP ports that can be allowed; `None` where a rule leaves the port open.
    pub tcp_ports: Option<Vec<u16>>,
    /// One entry for each prefix that a rule names, and one for all addresses of each family. The longest prefix that
    /// holds an address decides alone: every entry already includes the rules of the prefixes around it.
    pub entries: Vec<NetEntry>,
}

/// What holds for the addresses of one prefix that no longer prefix covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetEntry {
    /// The prefix.
    pub range: IpNet,
    /// Ports by protocol, in order, without overlap; what they leave out has the default.
    pub ports: Vec<PortRange>,
    /// The verdict for all other ports.
    pub default: NetVerdict,
}

/// A range of ports with one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First port.
    pub low: u16,
    /// Last port.
    pub high: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The verdict.
    pub verdict: NetVerdict,
}

/// A verdict of the kernel tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetVerdict {
    /// Allowed by a rule.
    Allow,
    /// No rule allows it.
    Unlisted,
    /// A deny rule names it.
    Denied(RuleId),
}

impl From<Verdict> for NetVerdict {
    fn from(verdict: Verdict) -> Self {
        match (verdict.allowed(), verdict.reason, verdict.rule) {
            (true, _, _) => Self::Allow,
            (false, Reason::DeniedByRule, Some(rule)) => Self::Denied(rule),
            _ => Self::Unlisted,
        }
    }
}

impl KernelPlan {
    /// Lower a policy.
    pub fn new(engine: &Engine) -> Self {
        Self { files: files::subtrees(engine), net: net::plan(engine) }
    }
}
