//! Denials that the kernel made: the first of a kind at once, its repetitions as a count.

use act_bpf::{Event, Hook, Reason};
use act_policy::{Policy, RuleId};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Most different denials that are told apart; more are counted together.
const MAX_KINDS: usize = 256;

/// Denials of one call that were already shown once.
#[derive(Debug, Default)]
pub struct KernelDenials {
    kinds: BTreeMap<String, Count>,
    more: u64,
}

#[derive(Debug)]
struct Count {
    repeats: u64,
    first: u64,
    last: u64,
}

impl KernelDenials {
    /// Count a denial; true when it is the first of its kind and has to be shown.
    pub fn first(&mut self, description: &str, timestamp: u64) -> bool {
        if let Some(count) = self.kinds.get_mut(description) {
            count.repeats += 1;
            count.last = timestamp;
            return false;
        }
        if self.kinds.len() >= MAX_KINDS {
            self.more += 1;
            return false;
        }
        self.kinds.insert(description.to_owned(), Count { repeats: 0, first: timestamp, last: timestamp });
        true
    }

    /// Whether there was any.
    pub fn any(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Lines for what repeated, and start over.
    pub fn repetitions(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (description, count) in std::mem::take(&mut self.kinds) {
            if count.repeats > 0 {
                let span = Duration::from_nanos(count.last.saturating_sub(count.first));
                lines.push(format!("{description}  ×{} more within {span:.1?}", count.repeats));
            }
        }
        if self.more > 0 {
            lines.push(format!("wasi:sockets  {} more denials of other kinds   kernel", self.more));
            self.more = 0;
        }
        lines
    }
}

/// `wasi:sockets  connect 10.0.0.5:5432/tcp   kernel: connect4  under deny 10.0.0.0/8 (…)`
pub fn describe(event: &Event, policy: &Policy) -> String {
    let protocol = match event.protocol {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        other => format!("protocol {other}"),
    };
    let (hook, verb) = match event.hook {
        Hook::Connect4 => ("connect4", "connect"),
        Hook::Connect6 => ("connect6", "connect"),
        Hook::Sendmsg4 => ("sendmsg4", "send"),
        Hook::Sendmsg6 => ("sendmsg6", "send"),
        Hook::Bind4 => ("bind4", "bind"),
        Hook::Bind6 => ("bind6", "bind"),
        Hook::SockCreate => ("sock_create", "socket"),
        Hook::Egress => ("egress", "packet to"),
    };
    let object = match event.hook {
        Hook::SockCreate => format!("family {} type {} {protocol}", event.family, event.socket_type),
        _ => format!("{}/{protocol}", SocketAddr::new(event.addr, event.port)),
    };
    let reason = match (event.rule, event.reason) {
        (Some(rule), _) if policy.rule(RuleId(rule)).is_some() => {
            format!("under deny {}", policy.describe(RuleId(rule)))
        }
        (_, Reason::Unconfigured) => "not configured yet".to_owned(),
        (_, Reason::SocketKind) => "no such socket is granted".to_owned(),
        (_, Reason::SourceRoute) => "it names further hops".to_owned(),
        (_, Reason::Listen) => "listening is not granted".to_owned(),
        (_, Reason::Unreadable) => "unreadable headers".to_owned(),
        _ => "no rule allows it".to_owned(),
    };
    format!("wasi:sockets  {verb} {object}   kernel: {hook}  {reason}")
}
