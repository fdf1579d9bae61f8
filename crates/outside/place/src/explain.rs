//! Explains a plan in words, one line for each setting.

use crate::{AllocatorChoice, Daemons, MemoryMode, NumaBalancing, Plan, Thp, ThreadPlacement};

impl Plan {
    /// One line for each setting that the plan makes: its name in a profile, its value and what the
    /// value means. A plan that changes nothing has none.
    #[must_use]
    pub fn explain(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.allocator {
            AllocatorChoice::Inherit => {}
            choice => {
                let name = String::from(choice.clone());
                lines.push(format!("allocator: {name} (in place of the program's malloc)"));
            }
        }
        let mut choice = |field: &str, is_set: bool, name: &str, meaning: &str| {
            if is_set {
                lines.push(format!("{field}: {name} ({meaning})"));
            }
        };
        let threads = self.threads;
        choice("threads", threads != ThreadPlacement::None, threads.name(), threads.meaning());
        choice("thp", self.thp != Thp::Inherit, self.thp.name(), self.thp.meaning());
        let balancing = self.numa_balancing;
        let is_set = balancing != NumaBalancing::Inherit;
        choice("numa-balancing", is_set, balancing.name(), balancing.meaning());
        let daemons = self.daemons;
        choice("daemons", daemons != Daemons::None, daemons.name(), daemons.meaning());
        let memory = &self.memory;
        let is_set = memory.mode != MemoryMode::Inherit || memory.balancing;
        choice("memory", is_set, &memory.to_string(), memory.mode.meaning());
        let cpu_nodes = self.cpu_nodes.as_ref();
        lines.extend(
            cpu_nodes.map(|nodes| format!("cpu-nodes: {nodes} (runs on the CPUs of these)")),
        );
        lines.extend(self.cpus.as_ref().map(|cpus| format!("cpus: {cpus} (runs on these)")));
        lines.extend(self.env.iter().map(|(name, value)| format!("env: {name}={value}")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryPolicy;

    #[test]
    fn every_setting_has_a_line_that_says_what_it_means() {
        assert_eq!(Plan::default().explain(), [""; 0]);
        let plan = Plan {
            allocator: AllocatorChoice::Path("/opt/lib/libhoard.so".into()),
            threads: ThreadPlacement::Sparse,
            cpu_nodes: Some("0".into()),
            cpus: Some("0-3".into()),
            thp: Thp::Never,
            numa_balancing: NumaBalancing::Off,
            daemons: Daemons::Balance,
            memory: MemoryPolicy { mode: MemoryMode::Bind, balancing: true, ..Default::default() },
            env: [("A".to_owned(), "1".to_owned())].into(),
        };
        insta::assert_snapshot!(plan.explain().join("\n"), @r"
        allocator: /opt/lib/libhoard.so (in place of the program's malloc)
        threads: sparse (one per node in turn: bandwidth and caches of all nodes)
        thp: never (none for this program)
        numa-balancing: off (for this program, by an explicit policy)
        daemons: balance (keeps pages on the nodes that use them)
        memory: bind all balancing (only these nodes)
        cpu-nodes: 0 (runs on the CPUs of these)
        cpus: 0-3 (runs on these)
        env: A=1
        ");
    }
}
