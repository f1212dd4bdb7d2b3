//! What the machine is, for the head of a report.

use std::fs;

use serde::{Deserialize, Serialize};

use super::{Clock, cores, timer_cost};

/// Facts about the machine that decide what its figures mean. What cannot be found out is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The processor's name.
    pub cpu: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The number of cores that the process may run on.
    pub cores: usize,
    /// The frequency governor of the first of these; `None` where the frequency is not the kernel's to decide.
    pub governor: Option<String>,
    /// The kernel's clock source; `tsc` is the one that can be read without a system call.
    pub clock: Option<String>,
    /// Whether there is a hypervisor below, to which the tail then belongs.
    pub virtual_machine: Option<bool>,
    /// The median cost of reading the clock, in ns; no measured duration can be shorter.
    pub timer_ns: u64,
}

impl Host {
    /// Reads the facts of this machine. Costs about a millisecond, and the clock's calibration if nobody has read it yet.
    pub fn read() -> Self {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").ok();
        let first_core = cores().first().copied().unwrap_or(0);
        let governor = format!("/sys/devices/system/cpu/cpu{first_core}/cpufreq/scaling_governor");
        Self {
            cpu: cpu_info.as_deref().and_then(|text| field_of(text, "model name")).map(str::to_owned),
            kernel: line_of("/proc/sys/kernel/osrelease"),
            cores: cores().len(),
            governor: line_of(&governor),
            clock: line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            virtual_machine: cpu_info
                .as_deref()
                .and_then(|text| field_of(text, "flags"))
                .map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            timer_ns: timer_cost(Clock::new(), 10_000).value_at(0.5),
        }
    }
}

fn line_of(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|line| !line.is_empty())
}

/// The first value of a `name : value` line.
fn field_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: A CPU: fast\nflags : fpu tsc\n";
        assert_eq!(field_of(text, "model name"), Some("A CPU: fast"));
        assert_eq!(field_of(text, "model"), Some("17"));
        assert_eq!(field_of(text, "bogomips"), None);
    }

    #[test]
    fn this_machine_has_cores_and_a_kernel() {
        let host = Host::read();
        assert!(host.cores > 0 && host.timer_ns < 10_000, "{host:?}");
        assert!(host.kernel.is_some_and(|kernel| kernel.contains('.')));
        assert_eq!(line_of("/proc/there is no such file"), None);
    }
}
