//! The daemon's loop on a simulated system: two nodes of four CPUs, and targets that want to keep a
//! number of CPUs busy.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use numapilot_topology::{CpuId, NodeId};

use super::system;
use super::*;
use crate::decide::{Band, Why};

/// A target's side of the system.
#[derive(Debug, Default)]
struct Side {
    /// Threads that want to run.
    threads: Cell<u32>,
    ended: Cell<bool>,
    /// Whether it can no longer be put on other CPUs.
    refuses: Cell<bool>,
    /// The CPUs that it is held on.
    held: RefCell<CpuSet>,
    /// How often it was put on CPUs.
    sets: Cell<u32>,
    released: Cell<bool>,
}

struct World {
    begin: Instant,
    seconds: Cell<u64>,
    online: RefCell<CpuSet>,
    others: RefCell<CpuSet>,
    /// What another daemon takes while this one takes hold of a target.
    taken_meanwhile: RefCell<Option<CpuSet>>,
    has_records: Cell<bool>,
    sides: RefCell<BTreeMap<i32, Rc<Side>>>,
}

type Simulated = Rc<World>;

struct SimulatedTarget {
    world: Simulated,
    root: i32,
    tree: Vec<i32>,
    side: Rc<Side>,
    dry_run: bool,
    known: CpuSet,
}

impl System for Simulated {
    type Tree = Vec<i32>;
    type Plan = (i32, Vec<i32>);
    type Target = SimulatedTarget;

    fn now(&self) -> Instant {
        self.begin + Duration::from_secs(self.seconds.get())
    }

    fn machine(&self) -> Result<Machine, CoresError> {
        let mut machine = Machine::uniform(2, 4);
        for cpu in &mut machine.cpus {
            cpu.online = self.online.borrow().contains(cpu.id);
        }
        Ok(machine)
    }

    fn cpus_of_others(&mut self) -> Result<CpuSet, CoresError> {
        match self.has_records.get() {
            true => Ok(self.others.borrow().clone()),
            false => Err(CoresError::Machine("no records".to_owned())),
        }
    }

    fn contains(tree: &Vec<i32>, pid: i32) -> bool {
        tree.contains(&pid)
    }

    fn plan(
        &mut self,
        root: i32,
        tree: Vec<i32>,
        _: Option<Way>,
    ) -> Result<(Self::Plan, CpuSet), CoresError> {
        Ok(((root, tree), self.online.borrow().clone()))
    }

    fn hold(
        &mut self,
        plan: Self::Plan,
        _: &CpuSet,
        dry_run: bool,
    ) -> Result<SimulatedTarget, CoresError> {
        let (root, tree) = plan;
        if let Some(cpus) = self.taken_meanwhile.borrow_mut().take() {
            *self.others.borrow_mut() = cpus;
        }
        let side = self.sides.borrow_mut().entry(root).or_default().clone();
        let known = CpuSet::new();
        Ok(SimulatedTarget { world: self.clone(), root, tree, side, dry_run, known })
    }
}

impl system::Target for SimulatedTarget {
    fn contains(&self, pid: i32) -> bool {
        self.tree.contains(&pid)
    }

    fn held_by(&self) -> String {
        "a simulation".to_owned()
    }

    fn traffic(&self) -> Result<&'static str, String> {
        Err("nothing counts it".to_owned())
    }

    fn has_ended(&mut self) -> bool {
        self.side.ended.get()
    }

    fn changed_cpus(&mut self) -> Result<Option<CpuSet>, CoresError> {
        let online = self.world.online.borrow().clone();
        let changed = online != self.known;
        self.known = online.clone();
        Ok(changed.then_some(online))
    }

    fn load(&mut self, cpus: usize) -> Load {
        let threads = f64::from(self.side.threads.get());
        let has = if self.dry_run { cpus } else { self.side.held.borrow().len() };
        let busy = threads.min(has as f64);
        Load { busy: Some(busy), waiting: Some(threads - busy), ..Load::default() }
    }

    fn node_bytes(&mut self) -> Option<BTreeMap<NodeId, u64>> {
        None
    }

    fn set(&mut self, from: &CpuSet, to: &CpuSet) -> Result<(), CoresError> {
        if self.dry_run {
            return Ok(());
        }
        if self.side.refuses.get() {
            return Err(CoresError::Affinity {
                tid: self.root,
                source: io::ErrorKind::PermissionDenied.into(),
            });
        }
        assert_eq!(*from, *self.side.held.borrow());
        assert!(to.is_subset(&self.world.online.borrow()), "{to} are not all online");
        for (pid, other) in self.world.sides.borrow().iter() {
            let shared = other.held.borrow().intersection(to);
            assert!(*pid == self.root || shared.is_empty(), "{pid} has {shared} too");
        }
        *self.side.held.borrow_mut() = to.clone();
        self.side.sets.set(self.side.sets.get() + 1);
        Ok(())
    }

    fn keep(&mut self, cpus: &CpuSet) -> Result<(), CoresError> {
        assert!(self.dry_run || *cpus == *self.side.held.borrow());
        Ok(())
    }

    fn pinned(&self) -> usize {
        0
    }

    fn release(self) -> Result<Notes, CoresError> {
        self.side.held.borrow_mut().clone_from(&CpuSet::new());
        self.side.released.set(true);
        Ok(Notes::new())
    }
}

fn set(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

fn settings() -> Settings {
    Settings {
        controller: Controller::Band(Band::new(Band::THRESHOLDS)),
        spread: Spread::Dense,
        minimum: 1,
        maximum: None,
        way: None,
        dry_run: false,
    }
}

/// A system with CPUs 0 to 7, and a daemon that has begun with these targets and their threads.
fn begun(settings: Settings, targets: &[(i32, u32)]) -> (Simulated, Daemon<Simulated>) {
    let world = Rc::new(World {
        begin: Instant::now(),
        seconds: Cell::new(0),
        online: RefCell::new(set("0-7")),
        others: RefCell::default(),
        taken_meanwhile: RefCell::default(),
        has_records: Cell::new(true),
        sides: RefCell::default(),
    });
    let machine = world.machine().unwrap();
    let mut daemon = Daemon::on(world.clone(), machine, settings);
    for (pid, threads) in targets {
        daemon.add(*pid, vec![*pid], 1).unwrap();
        world.side(*pid).threads.set(*threads);
    }
    assert!(daemon.begin(None).is_empty());
    (world, daemon)
}

impl World {
    fn side(&self, pid: i32) -> Rc<Side> {
        self.sides.borrow()[&pid].clone()
    }

    fn held(&self, pid: i32) -> CpuSet {
        self.side(pid).held.borrow().clone()
    }
}

/// Ticks in which no target may be left.
fn ticks(daemon: &mut Daemon<Simulated>, count: usize) {
    for _ in 0..count {
        let (reports, left) = daemon.tick();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(reports.len(), daemon.targets.len());
    }
}

#[test]
fn cores_are_taken_back_and_given_by_the_load() {
    let (world, mut daemon) = begun(settings(), &[(1, 1)]);
    assert_eq!(world.held(1), set("0-7"), "a target begins with all");
    ticks(&mut daemon, 20);
    let few = world.held(1);
    assert!((1..=2).contains(&few.len()), "{few} for one thread");
    assert_eq!(daemon.cpus().collect::<Vec<_>>(), [(1, &few)]);

    let sets = world.side(1).sets.get();
    ticks(&mut daemon, 5);
    assert_eq!(world.side(1).sets.get(), sets, "a load that stays changes nothing");

    world.side(1).threads.set(6);
    ticks(&mut daemon, 20);
    assert!(world.held(1).len() >= 6, "{} for six threads", world.held(1));
}

#[test]
fn targets_share_the_cores() {
    let (world, mut daemon) = begun(settings(), &[(1, 8), (2, 8)]);
    ticks(&mut daemon, 20);
    assert_eq!((world.held(1).len(), world.held(2).len()), (4, 4));
    world.side(2).threads.set(1);
    ticks(&mut daemon, 20);
    assert_eq!(world.held(1).union(&world.held(2)), set("0-7"));
    assert!(world.held(1).len() >= 6, "{} beside {}", world.held(1), world.held(2));
}

#[test]
fn a_target_that_ends_is_released_and_its_cores_go_to_the_others() {
    let (world, mut daemon) = begun(settings(), &[(1, 8), (2, 8)]);
    ticks(&mut daemon, 5);
    world.side(2).ended.set(true);
    let (reports, left) = daemon.tick();
    assert_eq!(reports.iter().map(|report| report.pid).collect::<Vec<_>>(), [1]);
    assert_eq!(left.iter().map(|left| (left.pid, left.failed())).collect::<Vec<_>>(), [(2, false)]);
    assert!(world.side(2).released.get() && !world.side(1).released.get());
    ticks(&mut daemon, 20);
    assert_eq!(world.held(1), set("0-7"));

    world.side(1).ended.set(true);
    assert_eq!(daemon.tick().1.len(), 1);
    assert!(daemon.is_empty());
}

#[test]
fn a_target_that_cannot_be_moved_is_left_and_the_others_stay() {
    let (world, mut daemon) = begun(settings(), &[(1, 4), (2, 4)]);
    ticks(&mut daemon, 5);
    world.side(1).refuses.set(true);
    ticks(&mut daemon, 5);
    world.side(1).threads.set(1);
    let left: Vec<Left> = (0..20).flat_map(|_| daemon.tick().1).collect();
    assert!(matches!(&left[..], [Left { pid: 1, why: Some(CoresError::Affinity { .. }), .. }]));
    assert!(left[0].failed());
    assert!(world.side(1).released.get() && !world.side(2).released.get());
    assert_eq!(daemon.cpus().map(|(pid, _)| pid).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_cpu_that_goes_offline_is_left_and_taken_again_when_it_is_back() {
    let (world, mut daemon) = begun(settings(), &[(1, 8)]);
    ticks(&mut daemon, 2);
    assert_eq!(world.held(1), set("0-7"));
    *world.online.borrow_mut() = set("0-4,6-7");
    ticks(&mut daemon, 1);
    assert_eq!(world.held(1), set("0-4,6-7"));
    ticks(&mut daemon, 5);
    *world.online.borrow_mut() = set("0-7");
    ticks(&mut daemon, 20);
    assert_eq!(world.held(1), set("0-7"));
}

#[test]
fn a_cpu_that_was_never_online_is_found_in_the_machine() {
    let (world, mut daemon) = begun(settings(), &[]);
    *world.online.borrow_mut() = set("0-3");
    daemon.machine = world.machine().unwrap();
    daemon.add(1, vec![1], 1).unwrap();
    world.side(1).threads.set(8);
    assert!(daemon.begin(None).is_empty());
    assert_eq!(world.held(1), set("0-3"));
    *world.online.borrow_mut() = set("0-4");
    ticks(&mut daemon, 20);
    assert!(daemon.machine().online_cpus().contains(CpuId(4)));
    assert_eq!(world.held(1), set("0-4"));
}

#[test]
fn cores_of_other_daemons_are_left_alone() {
    let (world, mut daemon) = begun(settings(), &[(1, 8)]);
    *world.others.borrow_mut() = set("0-5");
    ticks(&mut daemon, 1);
    assert_eq!(world.held(1), set("6-7"));

    *world.others.borrow_mut() = set("0-7");
    let (_, left) = daemon.tick();
    assert!(matches!(&left[..], [Left { pid: 1, why: Some(CoresError::Occupied { .. }), .. }]));
    assert!(world.side(1).released.get());
    let error = daemon.add(2, vec![2], 1).unwrap_err();
    assert!(matches!(error, CoresError::Occupied { pid: 2, wanted: 1, there: 0 }), "{error}");
}

#[test]
fn more_targets_than_cpus_are_named_as_the_cause() {
    let (world, mut daemon) = begun(settings(), &[(1, 1), (2, 1)]);
    *world.online.borrow_mut() = set("0-1");
    let error = daemon.add(3, vec![3], 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "3 processes need 3 cores with --min 1, and may use 2; give fewer processes"
    );
    // Without the others there would be too few as well.
    *world.online.borrow_mut() = set("");
    let error = daemon.add(3, vec![3], 1).unwrap_err();
    assert!(matches!(error, CoresError::TooFew { pid: 3, wanted: 1, there: 0 }), "{error}");
}

#[test]
fn of_two_daemons_that_begin_at_the_same_time_the_second_leaves_the_target() {
    let (world, mut daemon) = begun(settings(), &[]);
    *world.taken_meanwhile.borrow_mut() = Some(set("0-7"));
    let error = daemon.add(1, vec![1], 1).unwrap_err();
    assert!(matches!(error, CoresError::Occupied { pid: 1, wanted: 1, there: 0 }), "{error}");
    assert!(world.side(1).released.get() && daemon.is_empty());
}

#[test]
fn without_records_all_targets_are_left() {
    let (world, mut daemon) = begun(settings(), &[(1, 8), (2, 8)]);
    world.has_records.set(false);
    let (reports, left) = daemon.tick();
    assert!(reports.is_empty() && daemon.is_empty());
    assert_eq!(
        left.iter().map(|left| (left.pid, left.failed())).collect::<Vec<_>>(),
        [(1, true), (2, false)]
    );
    assert!(world.side(1).released.get() && world.side(2).released.get());
}

#[test]
fn a_program_that_starts_keeps_all_cores_for_a_while() {
    let (world, mut daemon) = begun(settings(), &[(1, 1)]);
    assert!(daemon.begin(Some(Duration::from_secs(5))).is_empty());
    world.seconds.set(4);
    for _ in 0..20 {
        let (reports, _) = daemon.tick();
        assert_eq!((reports[0].decision.why, reports[0].cpus.len()), (Why::Starts, 8));
    }
    world.seconds.set(5);
    ticks(&mut daemon, 20);
    assert!(world.held(1).len() <= 2, "{}", world.held(1));
}

#[test]
fn a_dry_run_reports_decisions_and_holds_nothing() {
    let (world, mut daemon) = begun(Settings { dry_run: true, ..settings() }, &[(1, 1)]);
    ticks(&mut daemon, 20);
    let (_, cpus) = daemon.cpus().next().unwrap();
    assert!(cpus.len() <= 2, "{cpus}");
    assert_eq!((world.held(1), world.side(1).sets.get()), (CpuSet::new(), 0));
}

#[test]
fn related_targets_are_refused() {
    let (_, mut daemon) = begun(settings(), &[(1, 1)]);
    let error = daemon.add(1, vec![1], 1).unwrap_err();
    assert!(matches!(error, CoresError::Related { child: 1, parent: 1 }), "{error}");
    let error = daemon.add(7, vec![7, 1], 1).unwrap_err();
    assert!(matches!(error, CoresError::Related { child: 1, parent: 7 }), "{error}");
    daemon.add(8, vec![8, 9], 1).unwrap();
    let error = daemon.add(9, vec![9], 1).unwrap_err();
    assert!(matches!(error, CoresError::Related { child: 9, parent: 8 }), "{error}");
}

#[test]
fn all_is_put_back_at_the_end() {
    let (world, mut daemon) = begun(settings(), &[(1, 1), (2, 8)]);
    ticks(&mut daemon, 3);
    assert_eq!(daemon.end().iter().map(|left| left.pid).collect::<Vec<_>>(), [1, 2]);
    assert!(world.side(1).released.get() && world.side(2).released.get());

    let (world, daemon) = begun(settings(), &[(1, 1)]);
    drop(daemon);
    assert!(world.side(1).released.get(), "also where the daemon is dropped");
}
