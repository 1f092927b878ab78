package shards

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Kinds are what Script writes for.
var Kinds = []string{"slurm", "kubernetes", "sge", "pbs", "parallel"}

// Job is what a script submits: n parts of one experiment.
type Job struct {
	Name  string   // of the job: letters, digits, dots and dashes
	Run   []string // the command of a part, word by word, without --shard
	Merge []string // the command for the login node afterwards
	N     int
}

// quoted returns a command for a shell.
func quoted(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, Quote(w))
	}
	return strings.Join(out, " ")
}

// Quote returns a word for a shell.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./:,+@%", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Script returns the text that submits the job to a scheduler: a script of bash, or a manifest for Kubernetes.
func Script(kind string, j Job) (string, error) {
	if !slices.Contains(Kinds, kind) {
		return "", fmt.Errorf("%q is no scheduler that has a script; expected %s", kind, strings.Join(Kinds, ", "))
	}
	if j.N < 1 || j.N > Most {
		return "", fmt.Errorf("%d parts, expected 1 to %d", j.N, Most)
	}
	text := map[string]string{"slurm": slurmScript, "kubernetes": kubernetesJob, "sge": sgeScript, "pbs": pbsScript,
		"parallel": parallelScript}[kind]
	exec, err := json.Marshal(append(slices.Clone(j.Run), "--shard", fmt.Sprintf("auto/%d", j.N), "--grace", "30s"))
	if err != nil {
		return "", err
	}
	return strings.NewReplacer("{NAME}", j.Name, "{RUN}", quoted(j.Run), "{MERGE}", quoted(j.Merge),
		"{N}", fmt.Sprint(j.N), "{DNS}", dnsName(j.Name), "{EXEC}", string(exec)).Replace(text), nil
}

// dnsName makes a name that Kubernetes takes: lower case, digits and dashes, at most 50 letters.
func dnsName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	if clean = strings.Trim(clean[:min(len(clean), 50)], "-"); clean == "" {
		return "experiment"
	}
	return clean
}

// A batch shell gets the signal before the time limit, troupe writes what is finished, and the task goes back to the
// queue. Another end of troupe is the end of the task.
const slurmScript = `#!/bin/bash
#SBATCH --job-name={NAME}
#SBATCH --array=1-{N}
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@60
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={NAME}-%a.log
# Submit:          sbatch this-file
# What is missing: {MERGE} --missing
# Those alone:     sbatch --array=$({MERGE} --missing) this-file
# In the end:      {MERGE}
{RUN} --shard auto/{N} --workers "${SLURM_CPUS_PER_TASK:-1}" --grace 30s &
part=$!
again=
trap 'again=yes; kill -USR1 $part' USR1
trap 'kill -TERM $part' TERM
while kill -0 $part 2>/dev/null; do wait $part; done
wait $part; code=$?
if [ -n "$again" ] && [ $code = 130 ]; then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit $code
`

const sgeScript = `#!/bin/bash
#$ -N {NAME}
#$ -t 1-{N}
#$ -cwd
#$ -l s_rt=00:59:00,h_rt=01:00:00
#$ -r y
#$ -j y
# Submit:          qsub this-file
# What is missing: {MERGE} --missing    (a single range at a time: qsub -t 3-7 this-file)
# In the end:      {MERGE}
# A part that is ended by a signal exits with 99, which puts it back into the queue.
exec {RUN} --shard auto/{N} --workers "${NSLOTS:-1}" --grace 30s
`

const pbsScript = `#!/bin/bash
#PBS -N {NAME}
#PBS -J 1-{N}
#PBS -l select=1:ncpus=1
#PBS -l walltime=01:00:00
#PBS -r y
#PBS -j oe
# Submit:          qsub this-file
# What is missing: {MERGE} --missing    (a single range at a time: qsub -J 3-7 this-file)
# In the end:      {MERGE}
cd "${PBS_O_WORKDIR:-.}" || exit 2
exec {RUN} --shard auto/{N} --workers "${NCPUS:-1}" --grace 30s
`

const parallelScript = `#!/bin/bash
# Run all parts:   bash this-file    (again: it goes on where it stopped)
# What is missing: {MERGE} --missing
# Some parts:      bash this-file 3 7
# In the end:      {MERGE}
[ $# -gt 0 ] || set -- $(seq {N})
part() { exec {RUN} --shard "$1/{N}" --workers 1 --grace 30s; }
export -f part
SHELL=/bin/bash exec parallel part ::: "$@"
`

const kubernetesJob = `# Submit:          kubectl apply -f this-file
# What is missing: {MERGE} --missing    (the Job itself starts again what fails)
# In the end:      {MERGE}
# Set image, and the claim of a volume that all pods can write to (ReadWriteMany). It is /mnt in the pods: the spec and --out are there.
apiVersion: batch/v1
kind: Job
metadata:
  name: {DNS}
spec:
  completionMode: Indexed
  completions: {N}
  parallelism: {N}
  backoffLimitPerIndex: 6
  maxFailedIndexes: {N}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 60
      containers:
        - name: troupe
          image: troupe:latest
          command: {EXEC}
          workingDir: /mnt
          resources:
            requests: {cpu: "1", memory: 1Gi}
          volumeMounts:
            - {name: work, mountPath: /mnt}
      volumes:
        - name: work
          persistentVolumeClaim:
            claimName: work
`
