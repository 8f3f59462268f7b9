//! Landlock for the calling thread and all it starts later.

use crate::NEWEST_ABI;
use crate::error::LockdownError;
use crate::grants::rule;
use crate::sys::landlock_version;
use act_wire::Lockdown;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, NetPort, PathBeneath, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope,
};

/// The ABI that is handled: the kernel's, [`NEWEST_ABI`] at most; 0 for none.
pub fn kernel_abi() -> u32 {
    landlock_version().min(NEWEST_ABI)
}

/// First ABI with rules for TCP ports (Linux 6.7) and with scopes (Linux 6.12).
const PORTS: u32 = 4;
const SCOPES: u32 = 6;

/// Enforce the grants of `lockdown` on this thread, as far as the kernel's ABI goes: ports from 4 on, scopes from 6 on.
/// Returns the ABI and whether all that this ABI knows is enforced; what an old ABI lacks is the supervisor's to judge.
///
/// Sets `no_new_privs`. Without Landlock the answer is `(0, false)`, or an error where it is required.
pub fn landlock(lockdown: &Lockdown) -> Result<(u32, bool), LockdownError> {
    let number = kernel_abi();
    if number == 0 {
        return if lockdown.required { Err(LockdownError::NoLandlock) } else { Ok((0, false)) };
    }
    let abi = ABI::from(i32::try_from(number).unwrap_or(0));
    let failed = |step| move |source: RulesetError| LockdownError::Landlock { step, source };

    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(abi)).map_err(failed("handle files"))?;
    let ports = [(&lockdown.connect_tcp, AccessNet::ConnectTcp), (&lockdown.bind_tcp, AccessNet::BindTcp)];
    for (list, access) in &ports {
        if list.is_some() && number >= PORTS {
            ruleset = ruleset.handle_access(*access).map_err(failed("handle ports"))?;
        }
    }
    if number >= SCOPES {
        ruleset = ruleset.scope(Scope::from_all(abi)).map_err(failed("scope"))?;
    }
    let mut created = ruleset.create().map_err(failed("create the ruleset"))?;
    for grant in &lockdown.files {
        if let Some(rule) = rule(grant, abi)? {
            created = created.add_rule(PathBeneath::new(rule.place, rule.access)).map_err(failed("add a file rule"))?;
        }
    }
    if number >= PORTS {
        for (list, access) in &ports {
            for port in list.iter().flatten() {
                created = created.add_rule(NetPort::new(*port, *access)).map_err(failed("add a port rule"))?;
            }
        }
    }
    let status = created.restrict_self().map_err(failed("restrict"))?;
    let full = status.ruleset == RulesetStatus::FullyEnforced;
    if lockdown.required && status.ruleset == RulesetStatus::NotEnforced {
        return Err(LockdownError::NoLandlock);
    }
    Ok((number, full))
}
