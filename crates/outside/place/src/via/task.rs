//! What a launcher tells each task about the step to which it belongs.
//!
//! Source: srun(1), "OUTPUT ENVIRONMENT VARIABLES"; flux-environment(7); Open MPI's mpirun(1),
//! "Environmental Variables"; the PMI-1 wire protocol of MPICH's Hydra. A launcher of MPI may itself
//! use that of a resource manager to start one daemon on each machine, whose variables its tasks
//! inherit, so the launchers of MPI are asked first.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The variables of one launcher.
struct Variables {
    launcher: &'static str,
    /// The number of tasks of the step.
    tasks: &'static str,
    /// The number of the task, from 0.
    rank: &'static str,
    /// Those that together distinguish the step from others.
    step: &'static [&'static str],
}

const ALL: [Variables; 4] = [
    Variables {
        launcher: "Open MPI",
        tasks: "OMPI_COMM_WORLD_SIZE",
        rank: "OMPI_COMM_WORLD_RANK",
        step: &["PMIX_NAMESPACE"],
    },
    Variables { launcher: "MPI", tasks: "PMI_SIZE", rank: "PMI_RANK", step: &[] },
    Variables {
        launcher: "Flux",
        tasks: "FLUX_JOB_SIZE",
        rank: "FLUX_TASK_RANK",
        step: &["FLUX_JOB_ID"],
    },
    Variables {
        launcher: "Slurm",
        tasks: "SLURM_STEP_NUM_TASKS",
        rank: "SLURM_PROCID",
        step: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
];

/// A task of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The launcher and its name of the step.
    pub step: String,
    /// The number of the task, from 0.
    pub rank: u32,
    /// The number of tasks of the step.
    pub tasks: u32,
}

impl Task {
    /// What a launcher told this process, if one did.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name| variable(name)?.parse::<u32>().ok();
        ALL.iter().find_map(|launcher| {
            let (tasks, rank) = (number(launcher.tasks)?, number(launcher.rank)?);
            let step: Vec<String> =
                launcher.step.iter().filter_map(|name| variable(name)).collect();
            let step = match step.join(".") {
                name if name.is_empty() => launcher.launcher.to_owned(),
                name => format!("{} {name}", launcher.launcher),
            };
            (rank < tasks).then_some(Self { step, rank, tasks })
        })
    }
}

/// `task 1 of Slurm 12.0`.
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} of {}", self.rank, self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(variables: &[(&str, &str)]) -> Option<Task> {
        Task::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn each_launcher_has_its_variables() {
        let slurm = [
            ("SLURM_JOB_ID", "12"),
            ("SLURM_STEP_ID", "3"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_PROCID", "1"),
        ];
        let task_of_slurm = task(&slurm).unwrap();
        assert_eq!(task_of_slurm, Task { step: "Slurm 12.3".into(), rank: 1, tasks: 2 });
        assert_eq!(task_of_slurm.to_string(), "task 1 of Slurm 12.3");
        // Slurm started the daemons of Open MPI, and these the tasks.
        let both = [&slurm[..], &[("OMPI_COMM_WORLD_SIZE", "8"), ("OMPI_COMM_WORLD_RANK", "0")]];
        assert_eq!(task(&both.concat()), Some(Task { step: "Open MPI".into(), rank: 0, tasks: 8 }));
        assert_eq!(task(&[("PMI_SIZE", "4"), ("PMI_RANK", "3")]).unwrap().tasks, 4);
    }

    #[test]
    fn what_is_no_number_is_not_believed() {
        assert_eq!(task(&[]), None);
        for (tasks, rank) in [("", "0"), ("2", "x"), ("2", "2"), ("-1", "0")] {
            assert_eq!(task(&[("PMI_SIZE", tasks), ("PMI_RANK", rank)]), None, "{tasks} {rank}");
        }
    }
}
