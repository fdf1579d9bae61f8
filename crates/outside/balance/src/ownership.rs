//! Assigns samples to targets.

use std::collections::BTreeMap;

use numapilot_observe::Sample;

use crate::evidence::Page;
use crate::page_map::PageMap;
use crate::process::Process;
use crate::target::Target;

/// Gives every target its samples. If a sample does not name its process, the page tables show
/// which target maps the memory. They show the present state. Samples from before a page was moved
/// belong to no target; [`numapilot_observe::source::Source::skip`] drops them.
pub fn by_process(
    samples: Vec<Sample>,
    targets: &mut BTreeMap<i32, Option<Target<Process>>>,
) -> BTreeMap<i32, Vec<Sample>> {
    let mut groups: BTreeMap<i32, Vec<Sample>> =
        targets.keys().map(|pid| (*pid, Vec::new())).collect();
    // Querying the kernel for every sample would take longer than sampling.
    let mut owners: PageMap<Page, (Page, Option<i32>)> = PageMap::default();
    for sample in samples {
        let pid = sample.pid.or_else(|| {
            let page = Page::of(sample.virtual_address);
            let physical = Page::of(sample.physical_address?);
            if let Some((known, pid)) = owners.get(&page)
                && *known == physical
            {
                return *pid;
            }
            let owner = targets.iter_mut().find_map(|(pid, target)| {
                target.as_mut()?.memory.maps(page, physical).then_some(*pid)
            });
            owners.insert(page, (physical, owner));
            owner
        });
        if let Some(group) = pid.and_then(|pid| groups.get_mut(&pid)) {
            group.push(sample);
        }
    }
    groups
}
