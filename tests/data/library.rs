//! What people do with it: files and tables. Plots are in [`crate::plots`].

use belljar::wasm::packages_in;
use belljar::{GuestImage, ImageChoice, RuntimeType, Status};
use serde_json::json;
use support::{Expect, Jar};

use crate::jar;

#[test]
fn files_of_every_kind_go_in_and_out() {
    let jar = Jar::new();
    jar.write("in.csv", "city,month,degrees\nOslo,1,-4\nOslo,7,17\nRome,1,8\nRome,7,26\n");
    let code = "import numpy as np, pandas as pd
frame = pd.read_csv('in.csv')
means = frame.groupby('city').degrees.mean()
means.to_csv('out.csv'); frame.to_json('out.json', orient='records'); frame.to_excel('out.xlsx')
np.save('out.npy', frame.degrees.to_numpy())
back = pd.read_excel('out.xlsx', index_col=0)
[means.to_dict(), back.equals(frame), int(np.load('out.npy').sum()), len(pd.read_json('out.json'))]";
    let result = jar.run(code);
    result.gave(json!([{"Oslo": 6.5, "Rome": 17.0}, true, 47, 4]));
    result.changed(&["out.csv", "out.json", "out.npy", "out.xlsx"], &[], &[]);
    assert_eq!(jar.read("out.csv"), "city,degrees\nOslo,6.5\nRome,17.0\n");
}

/// The script that the recipe's own tests run in the guest as a command, here in the shipped image.
#[test]
fn what_people_do_once_each() {
    let script = include_str!("../../guests/python-data/tests/smoke.py");
    let jar = Jar::new().with(|policy| policy.fuel_budget(1 << 40).memory_bytes(512_000_000));
    let result = jar.run(script);
    result.ended(Status::Ok, 0);
    assert_eq!(result.stdout.lines().last(), Some("frames_are_kept_in_files"), "{}", result.stdout);
}

#[test]
fn packages_say_which_versions_they_are() {
    let code = "from importlib.metadata import PackageNotFoundError, distributions, version
import matplotlib, numpy, pandas, PIL
same = [version('NumPy') == numpy.__version__, version('pandas') == pandas.__version__]
same += [version('matplotlib') == matplotlib.__version__, version('Pillow') == PIL.__version__]
try: version('scipy')
except PackageNotFoundError: same.append(version('et_xmlfile') == version('et-xmlfile'))
[all(same), len(same), 'PyYAML' in [it.name for it in distributions()]]";
    Jar::new().run(code).gave(json!([true, 5, true]));
}

/// Code that imports what is not told gets the other image.
#[test]
fn everything_that_is_in_the_image_is_told() {
    let packages = packages_in(RuntimeType::Python, GuestImage::Data).expect("an image");
    let told: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    // The plain image has that one, too.
    let code = "from importlib.metadata import distributions
sorted((it.name for it in distributions() if it.name != 'tzdata'), key=str.lower)";
    jar(ImageChoice::Data).run(code).gave(json!(told));
}

#[test]
fn a_styled_table_is_shown() {
    let code = "import pandas as pd
frame = pd.DataFrame({'city': ['Oslo', 'Rome'], 'degrees': [6.5, 17.0]})
print(frame.to_latex(index=False).splitlines()[4])
frame.style.format(precision=1).background_gradient().highlight_max(subset='degrees', props='color: red')";
    let result = Jar::new().run(code);
    result.printed("Oslo & 6.500000 \\\\\n");
    let shown = result.result.expect("a value");
    assert!(shown.mime["text/html"].contains("color: red"), "{shown:?}");
}

#[test]
fn a_table_is_shown() {
    let result = Jar::new().run("import pandas as pd\npd.DataFrame({'a': [1, 2]})");
    let shown = result.result.expect("a value");
    assert!(shown.mime["text/html"].contains("<table"), "{shown:?}");
}

#[test]
fn integers_are_as_wide_as_natively_and_warnings_are_there() {
    let code = "import numpy as np, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    quotient = np.array([1.0]) / np.array([0.0])
[str(np.arange(3).dtype), int(np.array([2**31]).sum() * 4), str(quotient[0]), [str(w.message) for w in caught]]";
    Jar::new().run(code).gave(json!([
        "int64",
        8_589_934_592_u64,
        "inf",
        ["divide by zero encountered in divide"]
    ]));
}

#[test]
fn time_zones_and_small_packages_are_there() {
    let code = "import pandas as pd, yaml, tabulate, dateutil.parser
noon = pd.Timestamp('2024-07-01 12:00', tz='America/New_York').tz_convert('Asia/Tokyo')
[str(noon), yaml.safe_load('a: 1'), tabulate.tabulate([[1, 2]], tablefmt='plain'),
 str(dateutil.parser.parse('3 Feb 2024').date())]";
    let expected = json!(["2024-07-02 01:00:00+09:00", {"a": 1}, "1  2", "2024-02-03"]);
    Jar::new().run(code).gave(expected);
}
