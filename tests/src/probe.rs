//! `act-probe` in the place of `act-guest`.

use crate::process;
use crate::run::{Run, Running};
use crate::server::Server;
use crate::world::{Guest, World, require, root};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A world in which native code runs as the guest.
#[derive(Debug)]
pub struct Probe {
    /// The world.
    pub world: World,
    component: PathBuf,
    /// On 127.0.0.1 and 127.0.0.2 with one port, and on 127.0.0.1 with another.
    pub servers: Vec<Server>,
}

/// `setpriv`, which starts a program without capabilities, so that the kernel programs cannot be loaded.
#[track_caller]
pub fn setpriv() -> Option<PathBuf> {
    let found = ["/usr/bin/setpriv", "/bin/setpriv"].iter().map(PathBuf::from).find(|p| p.is_file());
    require(root())?;
    require(found.ok_or_else(|| "no setpriv (util-linux) to drop capabilities".to_owned()))
}

impl Probe {
    /// With this program as the guest.
    #[track_caller]
    pub fn new(program: &str) -> Option<Self> {
        require(root())?;
        let mut world = World::new()?;
        world.replace_guest(Path::new(program));
        world.file("data/file", "text");
        let component = world.pack(Guest::Files, &[("/**", "rw")], &json!([{ "cidr": "0.0.0.0/0" }]));
        let mut servers = Server::same_port(&["127.0.0.1", "127.0.0.2"]).unwrap();
        servers.push(Server::start("127.0.0.1").unwrap());
        Some(Self { world, component, servers })
    }

    /// What attempts work on: a file, `cgroup.procs` outside, the granted port, another port.
    fn places(&self) -> [String; 4] {
        let procs = process::cgroup_folder().unwrap().with_file_name("cgroup.procs");
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let ports = [0, 2].map(|n| self.servers[n].port().to_string());
        let [port, other] = ports;
        [text(&self.world.path("data/file")), text(&procs), port, other]
    }

    fn arguments(&self, names: &[&str]) -> Value {
        let [file, procs, port, other] = self.places();
        let number = |text: String| text.parse::<u16>().unwrap();
        json!({ "file": file, "procs": procs, "port": number(port), "other": number(other), "names": names })
    }

    /// Attempts under the supervisor.
    pub fn call(&self, names: &[&str], flags: &[&str]) -> Run {
        self.world.call(&self.component, "attempt", &self.arguments(names), flags)
    }

    /// Attempts under a supervisor without capabilities.
    pub fn call_through(&self, setpriv: &Path, names: &[&str], flags: &[&str]) -> Run {
        let act = self.world.call_command(&self.component, "attempt", &self.arguments(names), flags);
        let mut command = self.world.command(setpriv);
        command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(act.get_program()).args(act.get_args());
        Running::start(&mut command).finish()
    }

    /// Attempts without a supervisor.
    pub fn bare(&self, names: &[&str]) -> Run {
        let mut probe = self.world.command(&self.world.programs().join("act-guest"));
        probe.arg("--bare").args(self.places()).args(names);
        Running::start(&mut probe).finish()
    }

    /// How the probe misbehaves from now on.
    pub fn mode(&self, mode: &str) {
        std::fs::write(self.world.programs().join("probe-mode"), mode).unwrap();
    }

    /// How many connections each server has seen, once those under way have arrived.
    pub fn connections(&self) -> Vec<usize> {
        std::thread::sleep(std::time::Duration::from_millis(200));
        self.servers.iter().map(Server::accepted).collect()
    }

    /// A grant to write the folder with the file and to connect to the first server.
    pub fn grants(&self) -> Vec<String> {
        let socket = format!("sockets=127.0.0.1:{}/tcp", self.servers[0].port());
        vec!["--allow".into(), "fs={D}/data".into(), "--allow".into(), socket]
    }

    /// What came of each attempt.
    pub fn outcomes(run: &Run) -> BTreeMap<String, String> {
        let text = run.text();
        let pairs = text.lines().filter_map(|line| line.rsplit_once(": "));
        pairs.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect()
    }
}
