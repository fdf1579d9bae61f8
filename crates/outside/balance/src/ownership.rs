//! Whose a sample is.

use std::collections::BTreeMap;

use numapilot_observe::Sample;

use crate::evidence::Page;
use crate::page_map::PageMap;
use crate::process::Process;
use crate::target::Target;

/// Gives every target its samples. Where a sample does not tell its process the page tables
/// do: whose page this memory is. They tell how it is now: samples from before a page was moved
/// are nobody's, which [`numapilot_observe::source::Source::skip`] is for.
pub fn by_process(
    samples: Vec<Sample>,
    targets: &mut BTreeMap<i32, Option<Target<Process>>>,
) -> BTreeMap<i32, Vec<Sample>> {
    let mut groups: BTreeMap<i32, Vec<Sample>> =
        targets.keys().map(|pid| (*pid, Vec::new())).collect();
    // Asking the kernel for every sample would take longer than the samples.
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
