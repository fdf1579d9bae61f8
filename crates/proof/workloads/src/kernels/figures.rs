//! The figures of this machine that a prediction needs, from a machine description.
//!
//! In a lab the figures are scaled as the lab scales them; on hardware they are used unchanged. The
//! model's scale follows from its layout. In a lab the layout has the lab's CPUs. On hardware it
//! has one CPU per node, and the scale is undone afterwards.

use numapilot_lab_model::{CpuPlace, Layout, MemoryRange, Model};
use numapilot_topology::Machine;
use numapilot_topology::description::{Description, SHIPPED, named};

use super::KernelError;
use super::clock::Time;

/// The figures, or a message with the reason and the remedy.
pub type Known = Result<Model, String>;

/// The figures of the machine with this name or in this file. Without one, in a lab, those of the
/// emulated machine.
///
/// # Errors
/// When the named description cannot be read.
pub fn known(machine: &Machine, name: Option<&str>, time: Time) -> Result<Known, KernelError> {
    let name = match (name, time) {
        (Some(name), _) => name,
        (None, Time::Simulated) if SHIPPED.iter().any(|(name, _)| *name == machine.name) => {
            machine.name.as_str()
        }
        (None, Time::Simulated) => {
            return Ok(Err("name the lab's machine with --machine FILE".to_owned()));
        }
        (None, Time::Wall) => {
            return Ok(Err("the speed of this machine's memory is unknown; give --machine NAME \
                           or FILE (numapilot topo --measure --save FILE measures most of one)"
                .to_owned()));
        }
    };
    let (name, description) = named(name)?;
    Ok(model(&name, &description, time).and_then(|model| {
        let (described, here) = (model.nodes(), machine.nodes.len());
        if described == here {
            Ok(model)
        } else {
            Err(format!("{name} has {described} nodes, this machine has {here}"))
        }
    }))
}

/// The figures of a description.
///
/// # Errors
/// The figure that is missing in it.
pub fn model(name: &str, description: &Description, time: Time) -> Result<Model, String> {
    let machine = description.machine(name).map_err(|error| error.to_string())?;
    let emulated = description.lab.as_ref().filter(|_| time == Time::Simulated);
    let mut described = description.clone();
    described.lab = emulated.cloned();
    let layout = layout(&machine, emulated.map_or(1, |lab| lab.cpus_per_node));
    let mut model =
        Model::from_description(&described, &layout).map_err(|error| error.to_string())?;
    if emulated.is_none() {
        let scale = model.bandwidth_scale;
        model.controllers_gb_per_s.iter_mut().for_each(|rate| *rate /= scale);
        model.links.iter_mut().for_each(|link| link.gb_per_s /= scale);
        model.bandwidth_scale = 1.0;
    }
    Ok(model)
}

/// Memory of each node in the model's layout. The model simulates no addresses, because a
/// prediction only needs the node of each page. Any size is therefore good enough.
const NODE_BYTES: u64 = 1 << 30;

fn layout(machine: &Machine, cpus_per_node: u32) -> Layout {
    let mut layout = Layout { cpus: Vec::new(), ranges: Vec::new() };
    let mut start = 0;
    for (node, of) in machine.nodes.iter().enumerate() {
        if !of.cpus.is_empty() {
            let package = of.cpus.first().and_then(|cpu| machine.cpu(cpu)?.package).unwrap_or(0);
            // Numbered through all nodes: only CPUs of the same node share a core.
            let cores = (0..cpus_per_node).map(|cpu| layout.cpus.len() as u32 + cpu);
            let places: Vec<CpuPlace> =
                cores.map(|core| CpuPlace { node, core, package }).collect();
            layout.cpus.extend(places);
        }
        if of.memory_bytes > 0 {
            layout.ranges.push(MemoryRange { node, start, bytes: NODE_BYTES });
            start += NODE_BYTES;
        }
    }
    layout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_has_its_share_of_the_bandwidth_and_hardware_has_all() {
        let (name, description) = named("opteron-8385").unwrap();
        let lab = model(&name, &description, Time::Simulated).unwrap();
        let real = model(&name, &description, Time::Wall).unwrap();
        // Two of four cores.
        assert!((real.controllers_gb_per_s[0] / lab.controllers_gb_per_s[0] - 2.0).abs() < 1e-9);
        assert!((real.links[0].gb_per_s / lab.links[0].gb_per_s - 2.0).abs() < 1e-9);
        assert_eq!(real.caches[2].bytes, 16 * lab.caches[2].bytes);
        assert_eq!(real.latency_ns, lab.latency_ns);
    }

    #[test]
    fn every_shipped_machine_has_figures() {
        for (name, _) in SHIPPED {
            let (name, description) = named(name).unwrap();
            for time in [Time::Wall, Time::Simulated] {
                let model = model(&name, &description, time).unwrap();
                assert!(model.controllers_gb_per_s.iter().all(|rate| *rate > 0.0), "{name}");
            }
        }
    }

    #[test]
    fn what_is_not_known_is_reported() {
        let machine = Machine::uniform(2, 1);
        let known = |name, time| known(&machine, name, time);
        assert!(known(None, Time::Wall).unwrap().unwrap_err().contains("--machine"));
        assert!(known(None, Time::Simulated).unwrap().unwrap_err().contains("--machine"));
        let other = known(Some("opteron-8385"), Time::Wall).unwrap().unwrap_err();
        assert_eq!(other, "opteron-8385 has 4 nodes, this machine has 2");
        assert!(known(Some("nothing"), Time::Wall).is_err());
    }
}
