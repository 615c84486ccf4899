//! Machines as providers, tasks as flavors, files with other columns or wrong values, and the trace that is part of the
//! project.

use std::path::Path;

use placewright_trace::flavor::flavor;
use placewright_trace::provider::providers;
use placewright_trace::{nodes, tasks};

const TASKS_HEADER: &str =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n";

fn parse_tasks(lines: &str) -> Result<Vec<tasks::Task>, String> {
    let text = format!("{TASKS_HEADER}{lines}");
    tasks::parse(Path::new("tasks.csv"), text.as_bytes()).map_err(|error| error.to_string())
}

fn parse_nodes(text: &str) -> Result<Vec<nodes::Node>, String> {
    nodes::parse(Path::new("nodes.csv"), text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn columns_are_found_by_name_and_unknown_ones_ignored() {
    let parsed =
        parse_nodes("model,colour,gpu,memory_mib,cpu_milli,sn\nT4,red,2,10,2000,a\n,,0,5,1,b\n");
    let parsed = parsed.unwrap();
    assert_eq!((parsed[0].cpu_milli, parsed[0].gpus), (2000, 2));
    assert_eq!(parsed[0].gpu_model.as_deref(), Some("T4"));
    assert_eq!(parsed[1].gpu_model, None);
}

#[test]
fn a_machine_becomes_a_tree_with_a_provider_for_each_gpu() {
    let parsed = parse_nodes("sn,cpu_milli,memory_mib,gpu,model\na,2000,10,2,V100-m16\n").unwrap();
    let tree = providers(&parsed[0]);
    let names: Vec<_> = tree.iter().map(|provider| &*provider.name).collect();
    assert_eq!(names, ["a", "a_gpu_0", "a_gpu_1"]);
    assert_eq!(tree[0].parent, None);
    assert_eq!(tree[2].parent, Some(0));
    assert_eq!(tree[2].inventories, [("CUSTOM_GPU_MILLI", 1000)]);
    assert_eq!(tree[2].traits, ["CUSTOM_GPU_MODEL_V100_M16"]);
}

#[test]
fn tasks_come_in_the_order_of_their_submission() {
    let parsed =
        parse_tasks("c,1,1,0,0,,LS,9,10\na,1,1,0,0,,LS,3,\nb,1,1,0,0,,LS,9,9.0\n").unwrap();
    let order: Vec<_> = parsed
        .iter()
        .map(|task| (&*task.name, task.deleted_s))
        .collect();
    assert_eq!(order, [("a", None), ("c", Some(10)), ("b", Some(9))]);
}

#[test]
fn a_task_becomes_a_flavor_with_a_group_for_each_gpu() {
    let parsed = parse_tasks(
        "a,1500,64,2,1000,T4|A10|T4,LS,0,1\nb,1500,64,1,460,T4,LS,0,1\nc,1500,64,0,0,,LS,0,1\n",
    );
    let flavors: Vec<_> = parsed.unwrap().iter().map(flavor).collect();
    let specs = |index: usize| -> Vec<String> {
        let specs = flavors[index].extra_specs.iter();
        specs.map(|(key, value)| format!("{key}={value}")).collect()
    };
    assert_eq!(flavors[0].vcpus, 2);
    assert_eq!(flavors[0].name, "trace-1500m-64M-2x1000-A10.T4");
    assert_eq!(
        specs(0),
        [
            "group_policy=isolate",
            "placewright:any_trait_GPU1=CUSTOM_GPU_MODEL_A10,CUSTOM_GPU_MODEL_T4",
            "placewright:any_trait_GPU2=CUSTOM_GPU_MODEL_A10,CUSTOM_GPU_MODEL_T4",
            "resources:CUSTOM_MILLI_CPU=1500",
            "resources:MEMORY_MB=64",
            "resources:VCPU=0",
            "resources_GPU1:CUSTOM_GPU_MILLI=1000",
            "resources_GPU2:CUSTOM_GPU_MILLI=1000",
        ]
    );
    assert!(specs(1).contains(&"trait_GPU1:CUSTOM_GPU_MODEL_T4=required".to_owned()));
    assert_eq!(specs(2).len(), 3);
    assert_eq!(flavors[2].name, "trace-1500m-64M");
}

#[test]
fn errors_name_the_file_the_line_and_the_column() {
    let header = "sn,cpu_milli,memory_mib,gpu,model\n";
    let nodes = [
        (
            "sn,cpu_milli,memory_mib\na,1,1\n".to_owned(),
            "nodes.csv, line 1: there is no column gpu",
        ),
        (header.to_owned(), "nodes.csv: there are no rows"),
        (
            format!("{header}a,1,1,0,\na,1,1,0,\n"),
            "nodes.csv, line 3, column sn: line 2 has the same",
        ),
        (
            format!("{header},1,1,0,\n"),
            "nodes.csv, line 2, column sn: it is empty",
        ),
        (
            format!("{header}a,-1,1,0,\n"),
            "nodes.csv, line 2, column cpu_milli: \"-1\" is no whole",
        ),
        (
            format!("{header}a,1,3000000000,0,\n"),
            "line 2, column memory_mib: 3000000000 is more than",
        ),
        (
            format!("{header}a,1,1,0\n"),
            "nodes.csv: CSV error: record 1 (line: 2, byte: 34): found record",
        ),
    ];
    for (text, expected) in nodes {
        let error = parse_nodes(&text).unwrap_err();
        assert!(error.contains(expected), "{error} lacks {expected}");
    }
    let tasks = [
        (
            "a,1,1,1,0,,LS,0,1\n",
            "tasks.csv, line 2, column gpu_milli: a task with GPUs takes 1 to 1000",
        ),
        (
            "a,1,1,1,1001,,LS,0,1\n",
            "column gpu_milli: 1001 is more than 1000",
        ),
        ("a,1,1,0,0,,LS,,1\n", "column creation_time: it is empty"),
        (
            "a,1,1,0,0,,LS,5,1\n",
            "column deletion_time: it is before creation_time",
        ),
        (
            "a,1,1,99999,1000,,LS,0,1\n",
            "column num_gpu: 99999 is more than",
        ),
    ];
    for (lines, expected) in tasks {
        let error = parse_tasks(lines).unwrap_err();
        assert!(error.contains(expected), "{error} lacks {expected}");
    }
    let error = nodes::read(Path::new("/nowhere/nodes.csv")).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/nodes.csv: "));
}

#[test]
fn the_trace_of_the_project_requests_a_little_more_than_available() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let nodes = nodes::read(&data.join("nodes.csv")).unwrap();
    let tasks = tasks::read(&data.join("tasks.csv")).unwrap();
    assert_eq!((nodes.len(), tasks.len()), (60, 400));
    let available: u32 = nodes.iter().map(|node| node.gpus * 1000).sum();
    let requested: u32 = tasks.iter().map(|task| task.gpus * task.gpu_milli).sum();
    assert!(
        available < requested && requested < available * 3 / 2,
        "{requested} of {available}"
    );
}
