//! Random search: draws that depend on nothing but (seed, slot, parameter name).

use serde_json::Value;

use super::quantile::quantile;
use super::{Config, sorted};
use crate::sweep::{Parameter, SweepSpec};

/// The draw of a slot.
///
/// Each parameter's own number `u` of the open interval (0, 1) is a multiple of 2^-53:
/// `h = mix(seed + G)`, then `h = mix((h ^ slot) + G)`, then `h = mix((h ^ w) + G)` for the FNV-1a
/// hash `w` of the name, where `mix` and `G` are splitmix64's; `u = ((h >> 12) + 1/2) / 2^52`.
/// Inside groups, `w` is the hash of all names on the way, with [`SEPARATOR`] between them.
/// Sweeps on disk rely on this: it must never change.
pub(super) fn draw(spec: &SweepSpec, seed: u64, slot: u64) -> Config {
    let seed_and_slot = mix(mix(seed) ^ slot);
    let value = |(name, parameter): (&String, &Parameter)| {
        (name.clone(), drawn(parameter, seed_and_slot, hash(FNV_START, name)))
    };
    sorted(&spec.parameters).into_iter().map(value).collect()
}

/// `path` is the hash of the parameter's name, or of all names that lead to it.
fn drawn(parameter: &Parameter, seed_and_slot: u64, path: u64) -> Value {
    let Parameter::Group(members) = parameter else {
        return quantile(parameter, uniform(seed_and_slot, path));
    };
    let member = |(name, parameter): (&String, &Parameter)| {
        let path = hash(fnv_step(path, SEPARATOR), name);
        (name.clone(), drawn(parameter, seed_and_slot, path))
    };
    Value::Object(sorted(members).into_iter().map(member).collect())
}

/// What stands between the names of a path: a byte that UTF-8 never has, so that no other path,
/// and no name, is the same bytes.
const SEPARATOR: u8 = 0xff;

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv_step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

/// FNV-1a, continued from `start`.
fn hash(start: u64, name: &str) -> u64 {
    name.bytes().fold(start, fnv_step)
}

fn uniform(seed_and_slot: u64, path: u64) -> f64 {
    unit(mix(seed_and_slot ^ path))
}

/// 64 random bits as a number of the open interval (0, 1): neither end can come.
fn unit(bits: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "52 bits fit")]
    let whole = (bits >> 12) as f64;
    (whole + 0.5) / 4_503_599_627_370_496.0
}

/// One step of splitmix64.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::configuration;
    use super::super::vectors::sweep;
    use super::*;
    use crate::sweep::Method;
    use proptest::prelude::*;
    use serde_json::json;

    fn random(parameters: Value) -> SweepSpec {
        sweep(Method::Random, &parameters)
    }

    fn three_slots(spec: &SweepSpec) -> String {
        let slots = (0..3).map(|slot| json!(configuration(spec, 7, slot)).to_string());
        slots.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn draws_never_change_between_versions() {
        let spec = random(json!({
            "lr": {"min": 0.0, "max": 1.0}, "n": {"min": 1, "max": 100}, "o": {"values": ["a", "b"]}
        }));
        insta::assert_snapshot!(three_slots(&spec), @r#"
            {"lr":0.8936724281547223,"n":13,"o":"b"}
            {"lr":0.8382104034271841,"n":91,"o":"a"}
            {"lr":0.21693969416675907,"n":53,"o":"a"}
            "#);
    }

    #[test]
    fn draws_of_groups_never_change_between_versions() {
        let u = json!({"min": 0.0, "max": 1.0});
        let spec = random(json!({
            "g": {"parameters": {"lr": u, "h": {"parameters": {"lr": u}}}}, "lr": u
        }));
        insta::assert_snapshot!(three_slots(&spec), @r#"
            {"g":{"h":{"lr":0.9536201399777134},"lr":0.07957221030237338},"lr":0.8936724281547223}
            {"g":{"h":{"lr":0.32405547950107183},"lr":0.4535455918809631},"lr":0.8382104034271841}
            {"g":{"h":{"lr":0.2524010740976844},"lr":0.7762263184912529},"lr":0.21693969416675907}
            "#);
    }

    #[test]
    fn draws_of_every_distribution_never_change_between_versions() {
        let spec = random(json!({
            "b": {"distribution": "beta", "a": 2, "b": 5},
            "bb": {"distribution": "beta", "a": 0.1, "b": 1e5},
            "bbb": {"distribution": "beta", "a": 1e7, "b": 1e9},
            "l": {"distribution": "log_uniform", "min": -9, "max": -2},
            "lv": {"distribution": "log_uniform_values", "min": 1e-5, "max": 0.1},
            "i": {"distribution": "inv_log_uniform", "min": 0, "max": 5},
            "ln": {"distribution": "log_normal", "mu": 1, "sigma": 0.5},
            "n": {"distribution": "normal", "mu": -1, "sigma": 3},
            "q": {"distribution": "q_normal", "mu": 100, "sigma": 15, "q": 5},
            "w": {"values": ["x", "y", "z"], "probabilities": [0.2, 0.3, 0.5]},
        }));
        insta::assert_snapshot!(three_slots(&spec), @r#"
            {"b":0.10300158230262867,"bb":1.3385656128929607e-6,"bbb":0.009898742299345245,"i":0.3348935837726336,"l":0.0890104430508449,"ln":2.688384530869596,"lv":0.004544440002458315,"n":-4.439314515965748,"q":95,"w":"z"}
            {"b":0.3235979402927431,"bb":8.24688758685951e-23,"bbb":0.009903774501466575,"i":0.02975066391639135,"l":0.002242717264807813,"ln":2.7225035096330137,"lv":0.00018257069597400728,"n":2.9153072790702197,"q":115,"w":"x"}
            {"b":0.18992572341003192,"bb":8.512137194454474e-10,"bbb":0.00989704918507338,"i":0.3920363562742755,"l":0.005020995514722746,"ln":1.6703957291429739,"lv":0.00002835558448651912,"n":-0.8454147410264012,"q":115,"w":"z"}
            "#);
    }

    #[test]
    fn another_parameter_changes_no_draw() {
        let b = json!({"min": 0, "max": 9999});
        let few = configuration(&random(json!({"b": b})), 1, 5).unwrap();
        let many = configuration(&random(json!({"b": b, "a": b})), 1, 5).unwrap();
        assert_eq!(few["b"], many["b"]);
        assert_ne!(many["a"], many["b"]);
    }

    #[test]
    fn a_group_is_another_place_than_any_name_that_looks_like_it() {
        let u = json!({"min": 0.0, "max": 1.0});
        let group = |name: &str, members: Value| json!({name: {"parameters": members}});
        let mut all: Vec<Value> = ["ab", "a.b", "a/b", "a~1b", "a\u{ff}b", "b", "a"]
            .map(|name| configuration(&random(json!({name: u})), 0, 0).unwrap()[name].clone())
            .into();
        let nested = [group("a", json!({"b": u})), group("", json!({"ab": u}))];
        for parameters in nested {
            let point = configuration(&random(parameters), 0, 0).unwrap();
            all.extend(
                point.values().flat_map(|group| group.as_object().unwrap().values().cloned()),
            );
        }
        let deep = random(group("a", group("", json!({"b": u}))));
        all.push(configuration(&deep, 0, 0).unwrap()["a"][""]["b"].clone());
        for (index, value) in all.iter().enumerate() {
            assert!(value.is_f64() && !all[..index].contains(value), "{index}: {all:?}");
        }
    }

    #[test]
    fn the_ends_of_the_interval_cannot_come() {
        assert!(unit(0) > 0.0);
        assert!(unit(u64::MAX) < 1.0);
    }

    proptest! {
        #[test]
        fn draws_are_repeatable(seed: u64, slot: u64, name: String) {
            let spec = random(json!({name: {"min": 0.0, "max": 1.0}}));
            let config = configuration(&spec, seed, slot);
            prop_assert_eq!(configuration(&spec, seed, slot), config);
        }
    }
}
