//! From the included object to loaded programs, without aya's loader: that reads five megabytes of kernel type
//! information first, which these programs do not need.

use crate::BpfError;
use crate::maps::Maps;
use crate::sys::{self, ProgramSpec};
use aya_obj::Object;
use std::collections::HashSet;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The programs, stripped; `build.rs` says which file.
static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("ACT_GUARD_OBJECT"));

/// How often a load that a signal interrupted is tried again. libbpf does so four times.
const ATTEMPTS: u32 = 16;

/// A program of the object, and where it is attached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hook {
    /// Symbol in the object.
    symbol: &'static str,
    /// Symbol of the program that denies everything there.
    closed: &'static str,
    /// Name for listings.
    pub(crate) name: &'static str,
    program_type: u32,
    pub(crate) attach_type: u32,
}

const CGROUP_SKB: u32 = 8;
const CGROUP_SOCK: u32 = 9;
const CGROUP_SOCK_ADDR: u32 = 18;

const fn hook(
    symbol: &'static str,
    closed: &'static str,
    name: &'static str,
    program_type: u32,
    attach_type: u32,
) -> Hook {
    Hook { symbol, closed, name, program_type, attach_type }
}

/// All programs, the longest to verify first: two threads share them out in this order.
///
/// The numbers are `enum bpf_prog_type` and `enum bpf_attach_type` of the kernel.
pub(crate) static HOOKS: [Hook; 8] = [
    hook("egress", "closed_egress", "act_egress", CGROUP_SKB, 1),
    hook("connect6", "closed_connect6", "act_connect6", CGROUP_SOCK_ADDR, 11),
    hook("sendmsg6", "closed_sendmsg6", "act_sendmsg6", CGROUP_SOCK_ADDR, 15),
    hook("bind6", "closed_bind6", "act_bind6", CGROUP_SOCK_ADDR, 9),
    hook("connect4", "closed_connect4", "act_connect4", CGROUP_SOCK_ADDR, 10),
    hook("sendmsg4", "closed_sendmsg4", "act_sendmsg4", CGROUP_SOCK_ADDR, 14),
    hook("bind4", "closed_bind4", "act_bind4", CGROUP_SOCK_ADDR, 8),
    hook("sock_create", "sock_create", "act_sock_create", CGROUP_SOCK, 2),
];

/// How far a sandbox may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nowhere. Sockets may be made as the flags of the table say, and every use of an address is denied. Quick to load,
    /// for there is no code to verify that matches rules.
    Nothing,
    /// Where a [`NetTable`](crate::NetTable) says.
    Rules,
}

/// A program in the kernel.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) hook: Hook,
    pub(crate) fd: OwnedFd,
}

/// Makes the maps and loads all programs. Returns the ring buffer apart: its reader takes it.
pub(crate) fn load(reach: Reach) -> Result<(Maps, OwnedFd, Vec<Program>), BpfError> {
    let mut object = Object::parse(OBJECT)?;
    let (maps, ring) = Maps::create(&object)?;

    let definitions = object.maps.clone();
    let descriptors = definitions.iter().filter_map(|(name, map)| {
        let fd = if name == "EVENTS" { Some(ring.as_raw_fd()) } else { maps.fd(name) };
        Some((name.as_str(), fd?, map))
    });
    // No program calls into `.text`: everything is inlined.
    let text = HashSet::new();
    object.relocate_maps(descriptors, &text)?;
    object.relocate_calls(&text)?;

    let programs = load_programs(&object, reach)?;
    Ok((maps, ring, programs))
}

/// Loads the programs on this thread and, where rules have to be matched, on one more: then nearly all the time is the
/// kernel's verifier.
fn load_programs(object: &Object, reach: Reach) -> Result<Vec<Program>, BpfError> {
    if reach == Reach::Nothing {
        return HOOKS.iter().map(|hook| load_program(object, *hook, reach)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<Program>, BpfError> {
        let mut loaded = Vec::with_capacity(HOOKS.len());
        while let Some(&hook) = HOOKS.get(next.fetch_add(1, Ordering::Relaxed)) {
            loaded.push(load_program(object, hook, reach)?);
        }
        Ok(loaded)
    };
    thread::scope(|scope| {
        let helper = thread::Builder::new()
            .name("act-bpf-load".into())
            .spawn_scoped(scope, work)
            .map_err(|source| BpfError::Resource { step: "start a thread", source })?;
        let mut programs = work()?;
        match helper.join() {
            Ok(loaded) => programs.extend(loaded?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(programs)
    })
}

fn load_program(object: &Object, hook: Hook, reach: Reach) -> Result<Program, BpfError> {
    let symbol = match reach {
        Reach::Nothing => hook.closed,
        Reach::Rules => hook.symbol,
    };
    let missing = BpfError::Mismatch { name: symbol, problem: "is missing" };
    let Some(program) = object.programs.get(symbol) else { return Err(missing) };
    let Some(function) = object.functions.get(&program.function_key()) else { return Err(missing) };
    let spec = ProgramSpec {
        name: hook.name,
        program_type: hook.program_type,
        attach_type: hook.attach_type,
        instructions: &function.instructions,
        license: &program.license,
    };
    let mut loaded = sys::program_load(&spec, &mut []);
    // The verifier gives up when a signal waits for its thread, handled or not: a child that ends is enough.
    for _ in 0..ATTEMPTS {
        match &loaded {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => loaded = sys::program_load(&spec, &mut []),
            _ => break,
        }
    }
    match loaded {
        Ok(fd) => Ok(Program { hook, fd }),
        Err(source) => Err(BpfError::LoadProgram { name: symbol, source, log: verifier_log(&spec) }),
    }
}

/// Loads once more to hear why it failed: the last line that the verifier says.
fn verifier_log(spec: &ProgramSpec<'_>) -> String {
    let mut log = vec![0_u8; 256 * 1024];
    if sys::program_load(spec, &mut log).is_ok() {
        return String::new();
    }
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let said = text.lines().rev().find(|line| !line.is_empty() && !line.starts_with("processed "));
    said.unwrap_or_default().to_owned()
}
