//! Coherence behind the private caches: the holders of a line, invalidations, and the cost of
//! fetching a line.
//!
//! A write invalidates all other copies; a read leaves the owner its copy but not its right to
//! write. A CPU with a last-level cache of its own may write a line that no other cache has without
//! notice: the change is looked up when another CPU accesses the line. A last-level cache includes
//! the private ones of its CPUs: a line that leaves it leaves them too.

use std::sync::atomic::AtomicU64;

use numapilot_lab_pmu::{CpuCounters, Level, Vector};

use super::core::Core;
use super::directory::Holders;
use super::llc::{Alone, Llc, Room, Victim};
use super::mask::for_each_cpu;
use super::private::Found;
use super::{Request, Served, Simulation};
use crate::model::LINE_BYTES;

/// The effect of contention on an access to a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Contended {
    /// There is no contention.
    No,
    /// The CPU still has the line: the access is a first-level hit.
    Held,
    /// Another CPU has taken the line, which comes from there.
    Lost(Served),
}

impl<M: AsRef<[AtomicU64]>> Simulation<M> {
    /// Whether an access is to a line that this CPU contends for, which no cache keeps.
    #[inline]
    pub(super) fn contested(
        &self,
        core: &mut Core,
        line: u64,
        write: bool,
        now_ps: u64,
    ) -> Contended {
        let Some(since_ps) = core.contention.since_ps(line) else { return Contended::No };
        let Some(counters) = &self.pmu.counters(core.cpu, core.mode) else { return Contended::No };
        let Some((rival, interval_ps)) = self.contended_lines.note_access(line, core.cpu, now_ps)
        else {
            core.contention.end(line);
            return Contended::No;
        };
        let from = self.model.node_of_cpu[rival];
        let latency_ps = self.transfer_ps(core.cpu, rival);
        let held_ps = now_ps.saturating_sub(since_ps);
        if held_ps < latency_ps.max(interval_ps) {
            return Contended::Held;
        }
        let queue_ps = self.network.send(from, core.node, now_ps);
        self.count_links(counters, from, core.node);
        core.counts().last_references += 1;
        core.counts().last_misses += 1;
        core.counts().invalidations += u64::from(write);
        counters.add_at(Vector::Transfers, from, 1);
        let latency_ps = latency_ps + queue_ps;
        core.contention.hold(line, now_ps + latency_ps);
        Contended::Lost(Served { level: Level::OtherCache, latency_ps, queue_ps })
    }

    /// The cost of a line from another CPU's caches.
    fn transfer_ps(&self, cpu: usize, from: usize) -> u64 {
        if self.group(cpu) == self.group(from) {
            return self.llc_ps;
        }
        let node = |cpu: usize| self.model.node_of_cpu[cpu];
        self.latencies_ps[node(cpu)][node(from)]
    }

    /// Inserts a line into the private caches with the right to write it, or without.
    pub(super) fn fill(&self, cpu: usize, line: u64, writable: bool, in_middle: bool) {
        self.l1[cpu].insert(line, writable);
        if let Some(middle) = self.middle.get(cpu) {
            if in_middle {
                if writable {
                    middle.make_writable(line);
                }
            } else if let Some(left) = middle.insert(line, writable) {
                self.l1[cpu].remove(left);
            }
        }
    }

    pub(super) fn allow_writing(&self, cpu: usize, line: u64) {
        self.l1[cpu].make_writable(line);
        if let Some(middle) = self.middle.get(cpu) {
            middle.make_writable(line);
        }
    }

    /// Whether a CPU may write a line, which it has but has not written, without notice. If so,
    /// this records the right.
    #[inline]
    pub(super) fn changes_alone(&self, core: &Core, line: u64) -> bool {
        let alone = core.has_own_llc()
            && core.contention.since_ps(line).is_none()
            && self.llc[core.group].access(line, true) == Found::Writable;
        if alone {
            self.allow_writing(core.cpu, line);
        }
        alone
    }

    /// Serves an access behind the private caches. `None` for a CPU that has no counters.
    pub(super) fn beyond_private(&self, core: &mut Core, request: Request<'_>) -> Option<Served> {
        let Request { entry, home, write, had, now_ps, absent } = request;
        let (cpu, node, group, mine) = (core.cpu, core.node, core.group, core.sharers);
        let line = entry.line();
        let llc = &self.llc[group];
        let counters = &self.pmu.counters(cpu, core.mode)?;
        let latencies_ps = &self.latencies_ps[node];
        core.counts().last_references += u64::from(!had);
        // The victim is chosen early, so that the host fetches its directory set together with that
        // of the line.
        let early = absent.then(|| self.make_room(llc, line));
        let mut record = entry.record();
        let before = record.get();
        let here = before.cpus & mine != 0;
        let elsewhere = before.cpus & !mine;
        let modified = self.take_back(line, elsewhere) || before.modified;
        let mut served = Served {
            level: Level::Last,
            latency_ps: if had { 0 } else { self.llc_ps },
            queue_ps: 0,
        };
        if here {
            llc.touch(line);
        } else if modified {
            let owner = self.node_of(elsewhere);
            core.counts().last_misses += 1;
            counters.add_at(Vector::Transfers, owner, 1);
            let queue_ps = self.network.send(owner, node, now_ps);
            self.count_links(counters, owner, node);
            let latency_ps = latencies_ps[owner] + queue_ps;
            served = Served { level: Level::OtherCache, latency_ps, queue_ps };
        } else {
            core.counts().last_misses += 1;
            let queue_ps = self.network.fetch(home, node, now_ps);
            self.count_links(counters, home, node);
            let latency_ps = latencies_ps[home] + queue_ps;
            served = Served { level: Level::Dram, latency_ps, queue_ps };
        }
        let others = before.cpus & !(1 << cpu);
        let mut after = Holders { cpus: before.cpus | 1 << cpu, modified };
        if others != 0 {
            if write {
                let reached = self.invalidate(line, others, mine);
                if let Some(farthest) = reached
                    .map(|nodes| nodes.map_or(self.llc_ps, |far: u64| self.farthest_ps(cpu, far)))
                {
                    core.counts().invalidations += 1;
                    served.latency_ps = served.latency_ps.max(farthest);
                }
            } else if modified {
                // The owner keeps its copy, but must ask before it writes again.
                for_each_cpu(others, |other| {
                    self.l1[other].make_shared(line);
                    if let Some(middle) = self.middle.get(other) {
                        middle.make_shared(line);
                    }
                });
                if !here {
                    self.write_back(self.node_of(elsewhere), home, now_ps, counters);
                    after.modified = false;
                }
            }
            if (write || modified) && self.contended_lines.note_access(line, cpu, now_ps).is_some()
            {
                core.contention.hold(line, now_ps);
            }
        }
        if write {
            after = Holders { cpus: 1 << cpu, modified: true };
        }
        let crowded_out = record.set(after);
        let alone = match (core.has_own_llc(), write) {
            (true, true) => Alone::Changed,
            (true, false) if others == 0 => Alone::Yes,
            _ => Alone::No,
        };
        let victim = if here {
            if alone == Alone::Changed {
                llc.change(line);
            }
            None
        } else {
            llc.insert_line(line, early.unwrap_or_else(|| self.make_room(llc, line)), alone)
        };
        if let Some((left, holders)) = crowded_out {
            self.drop_everywhere(left, holders, now_ps, counters);
        }
        if let Some(victim) = victim {
            self.leave_last(victim, mine, now_ps, counters);
        }
        if served.level == Level::Dram {
            core.counts().dram_latency_ps += served.latency_ps;
            core.counts().queue_ps += served.queue_ps;
            counters.add_latency(served.latency_ps as f64 / 1000.0);
            let vector = if write { Vector::DramWrites } else { Vector::DramReads };
            counters.add_at(vector, home, 1);
        }
        Some(served)
    }

    /// Finds a place for a line in a last-level cache, and prefetches the directory set of the
    /// victim.
    #[inline]
    fn make_room(&self, llc: &Llc, line: u64) -> Room {
        let room = llc.room(line);
        if let Some(leaves) = room.leaves() {
            self.directory.entry(leaves).prepare();
        }
        room
    }

    /// Tells a CPU that has a line and its last-level cache alone that this is over. Returns
    /// whether the CPU has changed the line, which the directory may not know.
    #[inline]
    fn take_back(&self, line: u64, cpus: u64) -> bool {
        cpus.is_power_of_two() && {
            let group = self.group(cpus.trailing_zeros() as usize);
            self.sharers[group] == cpus && self.llc[group].share(line)
        }
    }

    /// Removes a line from the caches of these CPUs. `None` if no cache had it, otherwise the CPUs
    /// outside `mine` whose last-level cache had it, if any.
    #[allow(clippy::option_option)]
    fn invalidate(&self, line: u64, cpus: u64, mine: u64) -> Option<Option<u64>> {
        let mut reached = false;
        for_each_cpu(cpus & mine, |other| reached |= self.remove_private(other, line));
        let outside = cpus & !mine;
        if outside == 0 {
            return reached.then_some(None);
        }
        for_each_cpu(outside, |other| {
            self.remove_private(other, line);
            self.llc[self.group(other)].remove(line);
        });
        Some(Some(outside))
    }

    pub(super) fn remove_private(&self, cpu: usize, line: u64) -> bool {
        let in_l1 = self.l1[cpu].remove(line);
        self.middle.get(cpu).is_some_and(|c| c.remove(line)) || in_l1
    }

    /// A line has left the last-level cache of these CPUs, so it leaves their private ones too.
    fn leave_last(&self, victim: Victim, mine: u64, now_ps: u64, counters: &CpuCounters<'_>) {
        let Victim { line, changed } = victim;
        let mut record = self.directory.entry(line).record();
        let before = record.get();
        if before.cpus & mine == 0 {
            return;
        }
        for_each_cpu(before.cpus & mine, |cpu| {
            self.remove_private(cpu, line);
        });
        let cpus = before.cpus & !mine;
        record.set(Holders { cpus, modified: false });
        if before.modified || changed {
            self.write_back_line(line, self.node_of(mine), now_ps, counters);
        }
    }

    /// A line has left the directory, so no cache may keep it.
    fn drop_everywhere(
        &self,
        line: u64,
        holders: Holders,
        now_ps: u64,
        counters: &CpuCounters<'_>,
    ) {
        let modified = self.take_back(line, holders.cpus) || holders.modified;
        self.invalidate(line, holders.cpus, 0);
        if modified {
            self.write_back_line(line, self.node_of(holders.cpus), now_ps, counters);
        }
    }

    fn write_back_line(&self, line: u64, from: usize, now_ps: u64, counters: &CpuCounters<'_>) {
        if let Some(home) = self.home_map.node_of(line * LINE_BYTES) {
            self.write_back(from, home, now_ps, counters);
        }
    }

    fn write_back(&self, from: usize, home: usize, now_ps: u64, counters: &CpuCounters<'_>) {
        self.network.write_back(from, home, now_ps);
        self.count_links(counters, from, home);
        counters.add_at(Vector::Writebacks, home, 1);
    }

    #[inline]
    fn count_links(&self, counters: &CpuCounters<'_>, from: usize, to: usize) {
        for link in self.network.route(from, to) {
            counters.add_at(Vector::LinkLines, *link, 1);
        }
    }

    fn farthest_ps(&self, cpu: usize, from: u64) -> u64 {
        let mut farthest = 0;
        for_each_cpu(from, |other| farthest = farthest.max(self.transfer_ps(cpu, other)));
        farthest
    }

    #[inline]
    pub(super) fn group(&self, cpu: usize) -> usize {
        self.groups[cpu]
    }

    /// The node of the first of these CPUs.
    fn node_of(&self, cpus: u64) -> usize {
        self.model.node_of_cpu.get(cpus.trailing_zeros() as usize).copied().unwrap_or(0)
    }
}
