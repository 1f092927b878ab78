package shards

import (
	"fmt"
	"strconv"
	"strings"
)

// scheduler is how a batch system tells a task of an array which one it is.
type scheduler struct {
	name  string
	index string                                                       // the variable that says which task this is
	part  func(get func(string) string, id, n int) (p Part, err error) // n is 0 where the caller did not say
	again int                                                          // the exit code that makes it start a task again; 0: any
}

// schedulers in the order in which they are named in messages.
var schedulers = []scheduler{
	{name: "Slurm", index: "SLURM_ARRAY_TASK_ID", part: slurm},
	{name: "Kubernetes", index: "JOB_COMPLETION_INDEX", part: fromZero("Kubernetes", "")},
	{name: "SGE", index: "SGE_TASK_ID", part: ranged("SGE", "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"), again: 99},
	{name: "PBS", index: "PBS_ARRAY_INDEX", part: fromOne("PBS", "")},
	{name: "LSF", index: "LSB_JOBINDEX", part: fromOne("LSF", "LSB_JOBINDEX_END")},
	{name: "AWS Batch", index: "AWS_BATCH_JOB_ARRAY_INDEX", part: fromZero("AWS Batch", "AWS_BATCH_JOB_ARRAY_SIZE")},
	{name: "GNU parallel", index: "PARALLEL_SEQ", part: fromOne("GNU parallel", "")},
}

// under returns the schedulers that have this process as a task of an array. SGE says "undefined" and LSF 0 outside of
// one.
func under(get func(string) string) (all []scheduler) {
	for _, s := range schedulers {
		v := get(s.index)
		if v == "" || s.name == "SGE" && v == "undefined" || s.name == "LSF" && v == "0" {
			continue
		}
		all = append(all, s)
	}
	return all
}

// Find reads the argument of --shard: "3/16", or "auto" and "auto/16", for which get returns the variables that the
// scheduler set. guessed reports that the number of parts is the size of the scheduler's array: a resubmitted array of
// fewer tasks would then be another division. The error says what was found and what was expected.
func Find(text string, get func(string) string) (p Part, guessed bool, err error) {
	rest, auto := strings.CutPrefix(text, "auto")
	if !auto {
		p, err = Parse(text)
		return p, false, err
	}
	n := 0
	if rest != "" {
		count, ok := strings.CutPrefix(rest, "/")
		if n, err = number(count); !ok || err != nil {
			return Part{}, false, fmt.Errorf("expected auto, or auto/N with N from 1 to %d", Most)
		}
	}
	found := under(get)
	switch len(found) {
	case 0:
		var names []string
		for _, s := range schedulers {
			names = append(names, s.index+" ("+s.name+")")
		}
		return Part{}, false, fmt.Errorf("no scheduler says which part this is: none of %s is set", strings.Join(names, ", "))
	case 1:
	default:
		var have []string
		for _, s := range found {
			have = append(have, fmt.Sprintf("%s (%s=%s)", s.name, s.index, get(s.index)))
		}
		return Part{}, false, fmt.Errorf("%d schedulers say which part this is, %s: say it as I/N", len(found),
			strings.Join(have, " and "))
	}
	s := found[0]
	id, err := integer(get, s.index)
	if err != nil {
		return Part{}, false, err
	}
	p, err = s.part(get, id, n)
	return p, n == 0, err
}

// Again is the exit code with which a task ends that shall be started again: the scheduler's own where it has one,
// otherwise code.
func Again(get func(string) string, code int) int {
	if found := under(get); len(found) == 1 && found[0].again > 0 {
		return found[0].again
	}
	return code
}

// integer reads a variable that must be a whole number.
func integer(get func(string) string, name string) (int, error) {
	v, err := strconv.Atoi(get(name))
	if err != nil || v < 0 || v > 1<<31-1 {
		return 0, fmt.Errorf("%s is %q, expected a whole number", name, get(name))
	}
	return v, nil
}

// numbered returns task id of n as a part, for arrays that count from 1.
func numbered(scheduler, variable string, id, n int) (Part, error) {
	if id < 1 || id > n {
		return Part{}, fmt.Errorf("%s has %s=%d, expected 1 to %d: number the array of %s from 1", scheduler, variable, id, n,
			scheduler)
	}
	return Part{id, n}, nil
}

// slurm reads an array of Slurm. Without n the array must be whole: from 0 or 1, without gaps.
func slurm(get func(string) string, id, n int) (Part, error) {
	const name = "SLURM_ARRAY_TASK_ID"
	if n > 0 {
		return numbered("Slurm", name, id, n)
	}
	var v [4]int
	for i, key := range []string{"SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP", "SLURM_ARRAY_TASK_COUNT"} {
		if key == "SLURM_ARRAY_TASK_STEP" && get(key) == "" {
			v[i] = 1
			continue
		}
		var err error
		if v[i], err = integer(get, key); err != nil {
			return Part{}, err
		}
	}
	p, err := spaced("Slurm", name, id, v[0], v[1], v[2])
	if err != nil {
		return Part{}, err
	}
	if p.Of != v[3] {
		return Part{}, fmt.Errorf("the array of Slurm has gaps: %d tasks from %d to %d by steps of %d; say how many parts there "+
			"are in all, as auto/N", v[3], v[0], v[1], v[2])
	}
	return p, nil
}

// spaced returns task id of the array least, least+step, …, most as a part.
func spaced(scheduler, variable string, id, least, most, step int) (Part, error) {
	switch {
	case step < 1 || most < least:
		return Part{}, fmt.Errorf("the array of %s is %d to %d by steps of %d, expected a range", scheduler, least, most, step)
	case least > 1:
		return Part{}, fmt.Errorf("the array of %s begins at %d, so it may be a part of a larger one; say how many parts there "+
			"are in all, as auto/N", scheduler, least)
	case id < least || id > most:
		return Part{}, fmt.Errorf("%s is %d, expected %d to %d", variable, id, least, most)
	case (id-least)%step != 0:
		return Part{}, fmt.Errorf("%s is %d, expected %d and steps of %d from there", variable, id, least, step)
	}
	of := (most-least)/step + 1
	if of > Most {
		return Part{}, fmt.Errorf("the array of %s has %d tasks, expected at most %d", scheduler, of, Most)
	}
	return Part{(id-least)/step + 1, of}, nil
}

// ranged reads an array that says its first and last task and its step.
func ranged(scheduler, first, last, step string) func(func(string) string, int, int) (Part, error) {
	return func(get func(string) string, id, n int) (Part, error) {
		if n > 0 {
			return numbered(scheduler, "SGE_TASK_ID", id, n)
		}
		var v [3]int
		for i, key := range []string{first, last, step} {
			var err error
			if v[i], err = integer(get, key); err != nil {
				return Part{}, err
			}
		}
		return spaced(scheduler, "SGE_TASK_ID", id, v[0], v[1], v[2])
	}
}

// fromZero reads an array that counts from 0, with its size in a variable where it says that.
func fromZero(scheduler, size string) func(func(string) string, int, int) (Part, error) {
	return func(get func(string) string, id, n int) (Part, error) {
		n, err := sizeOf(get, scheduler, size, n)
		if err != nil {
			return Part{}, err
		}
		if id >= n {
			return Part{}, fmt.Errorf("the index of %s is %d, expected 0 to %d", scheduler, id, n-1)
		}
		return Part{id + 1, n}, nil
	}
}

// fromOne reads an array that counts from 1, with its last task in a variable where it says that.
func fromOne(scheduler, last string) func(func(string) string, int, int) (Part, error) {
	return func(get func(string) string, id, n int) (Part, error) {
		n, err := sizeOf(get, scheduler, last, n)
		if err != nil {
			return Part{}, err
		}
		return numbered(scheduler, "its index", id, n)
	}
}

// sizeOf is n where the caller said it, otherwise the scheduler's variable.
func sizeOf(get func(string) string, scheduler, variable string, n int) (int, error) {
	if n > 0 {
		return n, nil
	}
	if variable == "" || get(variable) == "" {
		return 0, fmt.Errorf("%s does not say how many parts there are; say it, as auto/N", scheduler)
	}
	v, err := number(get(variable))
	if err != nil {
		return 0, fmt.Errorf("%s is %q, expected 1 to %d", variable, get(variable), Most)
	}
	return v, nil
}
