//! Reads the host name and the processor model.

use super::ReadError;
use super::tree::Dir;

/// Enough for the entry of the first CPU. The whole file grows with the number of CPUs, and the
/// kernel interrupts each of them to write its clock rate.
const ENTRY_BYTES: usize = 4096;

/// Fields of a CPU's entry that name its model: x86, MIPS and LoongArch, RISC-V, POWER.
const NAMES: [&str; 5] = ["model name", "Model Name", "cpu model", "uarch", "cpu"];

/// Fields that identify an Arm core.
const IMPLEMENTER: &str = "CPU implementer";
const PART: &str = "CPU part";

/// Whether the reader uses a field of this name.
pub(crate) fn is_field(name: &str) -> bool {
    NAMES.contains(&name) || [IMPLEMENTER, PART].contains(&name)
}

/// The host name; `machine` where there is none.
pub(super) fn host_name(root: &Dir) -> Result<String, ReadError> {
    let text = root.text("proc/sys/kernel/hostname", ENTRY_BYTES)?.unwrap_or_default();
    let name = text.trim();
    Ok(if name.is_empty() { "machine".to_owned() } else { name.to_owned() })
}

/// The first CPU's model from `/proc/cpuinfo`; `None` where the kernel does not say.
pub(super) fn model(root: &Dir) -> Result<Option<String>, ReadError> {
    Ok(root.text("proc/cpuinfo", ENTRY_BYTES)?.and_then(|text| model_in(&text)))
}

fn model_in(text: &str) -> Option<String> {
    let field = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key && !value.trim().is_empty()).then(|| value.trim())
        })
    };
    if let Some(name) = NAMES.into_iter().find_map(field) {
        return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let implementer = hexadecimal(field(IMPLEMENTER)?)?;
    let part = hexadecimal(field(PART)?)?;
    Some(arm_model(implementer, part))
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The name of an Arm core, from the fields of its MIDR register.
///
/// Source: arch/arm64/include/asm/cputype.h and the cores' technical reference manuals.
fn arm_model(implementer: u32, part: u32) -> String {
    let maker = match implementer {
        0x41 => "Arm",
        0x42 => "Broadcom",
        0x43 => "Cavium",
        0x46 => "Fujitsu",
        0x48 => "HiSilicon",
        0x4e => "NVIDIA",
        0x50 => "APM",
        0x51 => "Qualcomm",
        0x61 => "Apple",
        0x6d => "Microsoft",
        0xc0 => "Ampere",
        _ => return format!("Arm implementer {implementer:#x} part {part:#x}"),
    };
    let core = match (implementer, part) {
        (0x41, 0xd08) => "Cortex-A72",
        (0x41, 0xd0c) => "Neoverse N1",
        (0x41, 0xd40) => "Neoverse V1",
        (0x41, 0xd49) => "Neoverse N2",
        (0x41, 0xd4f) => "Neoverse V2",
        (0x41, 0xd83) => "Neoverse V3AE",
        (0x41, 0xd84) => "Neoverse V3",
        (0x41, 0xd85) => "Cortex-X925",
        (0x41, 0xd87) => "Cortex-A725",
        (0x41, 0xd8e) => "Neoverse N3",
        (0x43, 0x0a1) => "ThunderX",
        (0x43, 0x0af) | (0x42, 0x516) => "ThunderX2",
        (0x46, 0x001) => "A64FX",
        (0x48, 0xd01) => "TaiShan v110",
        (0x48, 0xd02) => "TaiShan v120",
        (0x6d, 0xd49) => "Azure Cobalt 100",
        (0xc0, 0xac3) => "Ampere-1",
        (0xc0, 0xac4) => "Ampere-1A",
        _ => return format!("{maker} part {part:#x}"),
    };
    format!("{maker} {core}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_names_its_processor() {
        let x86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)  8280\n";
        assert_eq!(model_in(x86).unwrap(), "Intel(R) Xeon(R) 8280");
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model_in(arm).unwrap(), "Arm Neoverse N1");
        let unknown = "CPU implementer\t: 0x41\nCPU part\t: 0xfff\n";
        assert_eq!(model_in(unknown).unwrap(), "Arm part 0xfff");
        let stranger = "CPU implementer\t: 0x99\nCPU part\t: 0x1\n";
        assert_eq!(model_in(stranger).unwrap(), "Arm implementer 0x99 part 0x1");
        let power = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n";
        assert_eq!(model_in(power).unwrap(), "POWER9, altivec supported");
        assert_eq!(model_in("garbage"), None);
    }
}
