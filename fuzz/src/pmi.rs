//! What a PMI server says from the first word to the last: the first byte chooses the protocol.

use farpost_job::fuzzing;

pub fn run(data: &[u8]) {
    let Some((which, said)) = data.split_first() else {
        return;
    };
    let _ = match which & 1 {
        0 => fuzzing::pmi1(said),
        _ => fuzzing::pmi2(said),
    };
}

pub fn seeds() -> Vec<Vec<u8>> {
    let value = fuzzing::text_of(b"what rank 1 put");
    let (length, pieces) = (value.len(), value.split_at(7));
    let one = |text: String| [b"0".as_slice(), text.as_bytes()].concat();
    let hello = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n\
        cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\ncmd=my_kvsname kvsname=kvs_1\n\
        cmd=appnum appnum=0\n";
    let mapping = "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n";
    let mapping_of = |text: &str| format!("cmd=get_result rc=0 value={text}\n");
    let rest = format!(
        "cmd=put_result rc=0 msg=success\ncmd=barrier_out rc=0\n\
        cmd=get_result rc=0 msg=success value={length}:{}\ncmd=get_result rc=0 value={}\n\
        cmd=get_result rc=-1 msg=not found value=unknown\ncmd=finalize_ack\n",
        pieces.0, pieces.1
    );
    let frame = |text: String| format!("{:<6}{text}", text.len());
    let two = |frames: &[String]| {
        let mut text = "1cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n".to_owned();
        text.extend(frames.iter().map(|text| frame(text.clone())));
        text.into_bytes()
    };
    let words = |text: &str| text.to_owned();
    let frames = [
        words(
            "cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=0;size=4;appnum=0;debugged=FALSE;pmiverbose=FALSE;rc=0;",
        ),
        words("cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,2,2));rc=0;"),
        words("cmd=info-getjobattr-response;found=FALSE;rc=0;"),
        words("cmd=kvs-put-response;rc=0;"),
        words("cmd=kvs-fence-response;rc=0;"),
        format!("cmd=kvs-get-response;found=TRUE;value={length}:{value};rc=0;"),
        words("cmd=kvs-get-response;found=FALSE;rc=0;"),
        words("cmd=finalize-response;rc=0;"),
    ];
    vec![
        one(format!("{hello}{mapping}{rest}")),
        one(format!("{hello}{}{rest}", mapping_of("(vector,[(0,1,1),2]x2)"))),
        one("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n".into()),
        two(&frames),
        two(&frames[..3]),
    ]
}
