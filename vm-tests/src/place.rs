//! Where things are in the machine. `xtask/src/vm/machine.rs` puts them there.

/// The test binary.
pub const TESTS: &str = "/bin/limits";
/// The supervisor; its other programs are beside it.
pub const ACT: &str = "/bin/act";
/// The program of [`crate::worker`].
pub const WORKER: &str = "/bin/vm-worker";
/// The component that the tests call.
pub const COMPONENT: &str = "/guests/files.wasm";
/// The mount point of cgroup2.
pub const CGROUP: &str = "/sys/fs/cgroup";
/// The second serial port: frames go out here. Kernel messages have the first one to themselves.
pub const RESULTS: &str = "/dev/ttyS1";
