//! Reads sinfo and sacctmgr: what there is to ask for.

use std::collections::BTreeMap;

use crate::settings::init::{Account, Nodes};

/// A row for each kind of node of each partition.
pub const FORMAT: &str = "--format=%R|%a|%D|%c|%m|%G";

/// The accounts of one user, a row for each.
pub const ACCOUNTS: &str = "format=DefaultAccount,Cluster,Account,QOS";

/// Parses `sinfo --noheader FORMAT`: the kinds of nodes of each partition that is up. A row that cannot be read is
/// left out: it only informs.
#[must_use]
pub fn parse_nodes(stdout: &str) -> BTreeMap<String, Vec<Nodes>> {
    let mut all: BTreeMap<String, Vec<Nodes>> = BTreeMap::new();
    for row in stdout.lines() {
        let fields: Vec<&str> = row.split('|').map(str::trim).collect();
        let [name, "up", count, cpus, memory, gres] = fields.as_slice() else { continue };
        // `64000+`: at least.
        let least = |number: &str| number.trim_end_matches('+').parse::<u64>().ok();
        let number = |number: &str| least(number).and_then(|number| u32::try_from(number).ok());
        let (Some(count), Some(cpus), Some(memory_mib)) =
            (number(count), number(cpus), least(memory))
        else {
            continue;
        };
        // `gpu:a100:4(S:0-1)`: the sockets are of no use here.
        let gres = match gres.split('(').next() {
            Some("" | "N/A" | "null") | None => String::new(),
            Some(gres) => gres.to_owned(),
        };
        let kinds = all.entry((*name).to_owned()).or_default();
        match kinds
            .iter_mut()
            .find(|kind| (kind.cpus, kind.memory_mib, &kind.gres) == (cpus, memory_mib, &gres))
        {
            // Rows of other states of the same kind.
            Some(kind) => kind.count = kind.count.saturating_add(count),
            None => kinds.push(Nodes { count, cpus, memory_mib, gres }),
        }
    }
    all
}

/// Parses `sacctmgr --noheader --parsable2 show user NAME withassoc ACCOUNTS`: those of one cluster.
#[must_use]
pub fn parse_accounts(stdout: &str, cluster: &str) -> Vec<Account> {
    let mut accounts: Vec<Account> = Vec::new();
    for row in stdout.lines() {
        let fields: Vec<&str> = row.split('|').collect();
        let [default, of, name, qos, ..] = fields.as_slice() else { continue };
        if *of != cluster || name.is_empty() || accounts.iter().any(|known| known.name == *name) {
            continue;
        }
        let qos = qos.split(',').filter(|qos| !qos.is_empty()).map(str::to_owned);
        let is_default = default == name;
        accounts.push(Account { name: (*name).to_owned(), is_default, qos: qos.collect() });
    }
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_nodes_are_read() {
        // slurm-wlm 22.05.8; the last two rows are by the manual: several kinds, and sockets of GPUs.
        let text = "\
main|up|1|16|64000|gpu:4
main|up|1|16|64000|gpu:4
closed|down|2|16|64000|gpu:4
cpu|up|10|64|257000+|(null)
big|up|3|128|1031000|gpu:a100:8(S:0-1)
";
        let nodes = parse_nodes(text);
        assert_eq!(nodes.keys().collect::<Vec<_>>(), ["big", "cpu", "main"]);
        assert_eq!(nodes["main"][0].to_string(), "2 nodes with 16 CPUs, 62 GiB, gpu:4");
        assert_eq!(nodes["cpu"][0].to_string(), "10 nodes with 64 CPUs, 250 GiB");
        assert_eq!(nodes["big"][0].gres, "gpu:a100:8");
    }

    #[test]
    fn accounts_are_those_of_this_cluster() {
        // slurm-wlm 22.05.8; a second cluster added.
        let text =
            "lab1|testbed|lab1|normal,tiny\nlab1|testbed|root|normal\nlab1|other|guest|normal\n";
        let accounts = parse_accounts(text, "testbed");
        let seen: Vec<_> = accounts.iter().map(|a| (&*a.name, a.is_default, a.qos.len())).collect();
        assert_eq!(seen, [("lab1", true, 2), ("root", false, 1)]);
        assert_eq!(parse_accounts("", "testbed"), []);
    }
}
