//! The memory of a running process, through the kernel.
//!
//! Source: move_pages(2), kernel_move_pages in mm/migrate.c; pidfd_open(2). A process number can be
//! reused. So a descriptor of the process is held, and every call is preceded and followed by a
//! check that the process still lives and has its number.

use std::fs::File;
use std::io::{self, BufReader};
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use numapilot_observe::Resident;
use numapilot_observe::numa_maps::hugetlb_starts;
use numapilot_observe::thread_group::{self, task_with_memory};
use numapilot_sys::process::{PidFd, start_time};
use numapilot_sys::{mempolicy, pagemap};
use numapilot_topology::{NodeId, NodeSet};
use procfs::process::{MMPermissions, MMapPath, MemoryMap};

use crate::agent::Agents;
use crate::evidence::{Page, Region};
use crate::memory::{Memory, MemoryError, Obstacle, Whereabouts};
use crate::page_map::PageMap;

/// How long the answer is cached whether a region is a huge page.
const HUGE_FOR: Duration = Duration::from_secs(10);

/// A process.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    fd: PidFd,
    began: Instant,
    huge: PageMap<Region, bool>,
    huge_since: Instant,
    pagemap: Option<File>,
    can_split: bool,
    agents: Option<Rc<Agents>>,
}

impl Process {
    /// Opens a process.
    ///
    /// # Errors
    /// [`MemoryError::Gone`] if there is no process with this number.
    pub fn open(pid: i32) -> Result<Self, MemoryError> {
        let number = u32::try_from(pid).map_err(|_| MemoryError::Gone)?;
        let started = start_time(number).map_err(|_| MemoryError::Gone)?;
        let fd = PidFd::open(pid).map_err(error)?;
        // The number may have been reused in between.
        if start_time(number).ok() != Some(started) {
            return Err(MemoryError::Gone);
        }
        let now = Instant::now();
        let huge = PageMap::default();
        // The empty call shows whether splitting is allowed.
        let can_split = fd.cold(&[]).is_ok();
        Ok(Self {
            pid,
            fd,
            began: now,
            huge,
            huge_since: now,
            pagemap: None,
            can_split,
            agents: None,
        })
    }

    /// Adds the agents, one of which the process may have.
    #[must_use]
    pub fn with_agent(self, agents: Option<Rc<Agents>>) -> Self {
        Self { agents, ..self }
    }

    /// The process number.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether the process still lives.
    #[must_use]
    pub fn lives(&self) -> bool {
        self.fd.ended_within(Some(Duration::ZERO)).is_ok_and(|ended| !ended)
    }

    /// Whether this process maps this physical memory at a page. That finds the owner of a sample
    /// that does not name its process. Only root may know.
    pub fn maps(&mut self, page: Page, physical: Page) -> bool {
        let size = procfs::page_size();
        self.refresh();
        self.pagemap
            .as_ref()
            .and_then(|file| pagemap::frame(file, page.address() / size))
            .is_some_and(|frame| frame == physical.address() / size)
    }

    /// Opens the page tables, and from time to time again: the process may have new memory after an
    /// exec.
    fn refresh(&mut self) {
        if self.huge_since.elapsed() >= HUGE_FOR || self.pagemap.is_none() {
            self.huge.clear();
            self.huge_since = Instant::now();
            self.pagemap = File::open(format!("/proc/{}/pagemap", task_with_memory(self.pid))).ok();
            // The number may have been reused.
            if !self.lives() {
                self.pagemap = None;
            }
        }
    }

    fn call(&self, pages: &[Page], to: Option<NodeId>) -> Result<Vec<i32>, MemoryError> {
        let addresses: Vec<usize> = pages
            .iter()
            .map(|page| usize::try_from(page.address()).unwrap_or(usize::MAX))
            .collect();
        let to = match to {
            None => None,
            Some(node) => {
                let node = i32::try_from(node.0).map_err(|_| MemoryError::Forbidden)?;
                Some(vec![node; pages.len()])
            }
        };
        if !self.lives() {
            return Err(MemoryError::Gone);
        }
        let flags = if to.is_some() { mempolicy::MF_MOVE } else { 0 };
        let task = task_with_memory(self.pid);
        let status = mempolicy::move_pages(task, &addresses, to.as_deref(), flags);
        if !self.lives() {
            return Err(MemoryError::Gone);
        }
        status.map_err(error)
    }
}

impl Process {
    /// Mappings of hugetlbfs. All mappings are read only for a process that has such pages.
    fn pooled(&self) -> Vec<Range<u64>> {
        let process = procfs::process::Process::new(self.pid).ok();
        let has_some = process.as_ref().and_then(Resident::of);
        if has_some.is_none_or(|resident| resident.hugetlb_bytes == 0) {
            return Vec::new();
        }
        let file = File::open(format!("/proc/{}/numa_maps", task_with_memory(self.pid)));
        let starts = file.and_then(|file| hugetlb_starts(BufReader::new(file))).unwrap_or_default();
        let maps = thread_group::maps(self.pid).unwrap_or_default();
        let ranges = maps.into_iter().map(|map| map.address.0..map.address.1);
        ranges.filter(|range| starts.contains(&range.start)).collect()
    }
}

impl Process {
    /// Makes a request for each part of regions, which ascend, that is private memory. Returns the
    /// bytes for which that worked.
    fn ask_agent(
        &mut self,
        regions: &[Region],
        request: impl Fn(&Agents, i32, u64, u64) -> io::Result<()>,
    ) -> u64 {
        let (Some(agents), true) = (&self.agents, self.lives() && !regions.is_empty()) else {
            return 0;
        };
        let mut asked = 0;
        for part in private_memory(self.pid, regions) {
            let bytes = part.end - part.start;
            match request(agents, self.pid, part.start, bytes) {
                Ok(()) => asked += bytes,
                // The program cannot load the library.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    self.agents = None;
                    break;
                }
                // The memory was unmapped meanwhile.
                Err(_) => {}
            }
        }
        asked
    }
}

impl Memory for Process {
    fn query(&mut self, pages: &[Page]) -> Result<Vec<Whereabouts>, MemoryError> {
        Ok(self.call(pages, None)?.into_iter().map(whereabouts).collect())
    }

    fn move_pages(&mut self, pages: &[Page], to: NodeId) -> Result<(), MemoryError> {
        match self.call(pages, Some(to)) {
            Err(MemoryError::Full) => {}
            moved => return moved.map(drop),
        }
        // A page of hugetlbfs goes into the node's own pool only. The kernel's answer is the same
        // for an empty pool and a full node, and it leaves out the pages after the failure.
        let pooled = self.pooled();
        let is_pooled = |page: &Page| pooled.iter().any(|range| range.contains(&page.address()));
        let others: Vec<Page> = pages.iter().copied().filter(|page| !is_pooled(page)).collect();
        if others.len() == pages.len() {
            return Err(MemoryError::Full);
        }
        if !others.is_empty() {
            self.call(&others, Some(to))?;
        }
        Err(MemoryError::EmptyPool)
    }

    fn huge(&mut self, regions: &[Region]) -> Vec<bool> {
        self.refresh();
        let Some(file) = &self.pagemap else {
            return vec![false; regions.len()];
        };
        let is_huge = |region: &Region| {
            let start = region.start().address();
            let end = start.saturating_add(u64::from(Region::PAGES) * Page::BYTES);
            pagemap::has_huge_page(file, start, end).unwrap_or(false)
        };
        regions
            .iter()
            .map(|region| *self.huge.entry(*region).or_insert_with(|| is_huge(region)))
            .collect()
    }

    fn can_split(&self) -> bool {
        self.can_split
    }

    fn split(&mut self, regions: &[Region]) -> Vec<bool> {
        // First of all, so that khugepaged cannot collapse them in between.
        self.ask_agent(regions, Agents::forbid_huge_pages);
        for region in regions {
            // The first base page is enough; the result is checked below.
            let start = usize::try_from(region.start().address()).unwrap_or(usize::MAX);
            let first = start..start.saturating_add(Page::BYTES as usize);
            let _ = self.fd.cold(std::slice::from_ref(&first));
            self.huge.remove(region);
        }
        self.huge(regions).into_iter().map(|huge| !huge).collect()
    }

    fn first_touch(&mut self, regions: &[Region], over: &NodeSet) -> u64 {
        self.ask_agent(regions, |agents, pid, start, bytes| agents.spread(pid, start, bytes, over))
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The parts of regions, which ascend, that are private anonymous memory. Each can divide a mapping
/// in three, and the kernel limits their number (`vm.max_map_count`): at least half of them are left
/// to the program.
fn private_memory(pid: i32, regions: &[Region]) -> Vec<Range<u64>> {
    let address = |region: u64| Region(region).start().address();
    let runs = regions.chunk_by(|a, b| a.0 + 1 == b.0);
    let runs: Vec<Range<u64>> =
        runs.map(|run| address(run[0].0)..address(run[run.len() - 1].0 + 1)).collect();
    let maps = thread_group::maps(pid).unwrap_or_default();
    let own = |map: &MemoryMap| {
        matches!(map.pathname, MMapPath::Anonymous | MMapPath::Heap)
            && map.perms.contains(MMPermissions::WRITE | MMPermissions::PRIVATE)
    };
    let parts = |map: MemoryMap| {
        let (start, end) = map.address;
        let part = |run: &Range<u64>| run.start.max(start)..run.end.min(end);
        runs.iter().map(part).filter(|part| part.start < part.end).collect::<Vec<_>>()
    };
    let most = procfs::sys::vm::max_map_count().map_or(0, |most| most / 2);
    let left = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(maps.len()) / 2;
    maps.into_iter().filter(own).flat_map(parts).take(left).collect()
}

/// Translates a page's status of move_pages(2).
fn whereabouts(status: i32) -> Whereabouts {
    match u32::try_from(status) {
        Ok(node) => Ok(NodeId(node)),
        Err(_) => Err(match -status {
            libc::ENOENT => Obstacle::Untouched,
            libc::EACCES => Obstacle::Shared,
            libc::ENOMEM => Obstacle::Full,
            libc::EBUSY | libc::EIO => Obstacle::Busy,
            // The zero page and pages of devices (EFAULT) among others.
            _ => Obstacle::Unmapped,
        }),
    }
}

fn error(error: io::Error) -> MemoryError {
    match error.raw_os_error() {
        Some(libc::ESRCH) => MemoryError::Gone,
        Some(libc::EPERM) => MemoryError::NotPermitted,
        Some(libc::EACCES | libc::ENODEV) => MemoryError::Forbidden,
        Some(libc::ENOMEM) => MemoryError::Full,
        _ => MemoryError::Other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that does nothing.
    fn sleeper() -> std::process::Child {
        std::process::Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn end(mut child: std::process::Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn own_pages_are_found() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut process = Process::open(pid).unwrap();
        assert!(process.lives());
        let value = vec![1u8; 64 << 10];
        let page = Page::of(value.as_ptr() as u64 + (32 << 10));
        let found = process.query(&[page, Page(0)]).unwrap();
        assert!(found[0].is_ok() && found[1].is_err(), "{found:?}");
        assert_eq!(process.move_pages(&[page], found[0].unwrap()).ok(), Some(()));
    }

    #[test]
    fn nodes_that_are_not_there_are_refused() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let value = vec![1u8; 64 << 10];
        let page = Page::of(value.as_ptr() as u64 + (32 << 10));
        let result = Process::open(pid).unwrap().move_pages(&[page], NodeId(999));
        assert!(matches!(result, Err(MemoryError::Forbidden)), "{result:?}");
    }

    #[test]
    fn a_process_that_has_ended_is_not_touched() {
        let child = sleeper();
        let mut process = Process::open(child.id().cast_signed()).unwrap();
        end(child);
        assert!(matches!(process.query(&[Page(1)]), Err(MemoryError::Gone)));
        assert!(matches!(process.move_pages(&[Page(1)], NodeId(0)), Err(MemoryError::Gone)));
        assert_eq!(process.huge(&[Region(0)]), [false]);
        assert!(matches!(Process::open(-1), Err(MemoryError::Gone)));
    }

    #[test]
    fn who_has_the_number_next_is_somebody_else() {
        let first = sleeper();
        let pid = first.id();
        let mut process = Process::open(pid.cast_signed()).unwrap();
        end(first);
        // The kernel continues counting from here, but other programs may take the number first.
        for _ in 0..100 {
            let from = format!("{}", pid - 1);
            if let Err(why) = std::fs::write("/proc/sys/kernel/ns_last_pid", from) {
                eprintln!("skipped: process numbers cannot be chosen here ({why})");
                return;
            }
            let next = sleeper();
            let same = next.id() == pid;
            let answers = (process.query(&[Page(1)]), process.move_pages(&[Page(1)], NodeId(0)));
            let (lives, huge) = (process.lives(), process.huge(&[Region(0)]));
            end(next);
            if same {
                assert!(
                    matches!(answers, (Err(MemoryError::Gone), Err(MemoryError::Gone))),
                    "{answers:?}"
                );
                assert_eq!((lives, huge), (false, vec![false]));
                return;
            }
        }
        panic!("the number {pid} was never free");
    }

    #[test]
    fn answers_of_the_kernel() {
        assert_eq!(whereabouts(3), Ok(NodeId(3)));
        assert_eq!(whereabouts(-libc::ENOENT), Err(Obstacle::Untouched));
        assert_eq!(whereabouts(-libc::EFAULT), Err(Obstacle::Unmapped));
        assert_eq!(whereabouts(-libc::EACCES), Err(Obstacle::Shared));
    }
}
