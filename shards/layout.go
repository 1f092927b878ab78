package shards

// widths are the numbers of replications that may stay together: a full batch of lock-step play first.
var widths = []int{8, 4, 2, 1}

// Layout returns for each cell the part that has it, from 1 to n. Cells are numbered
// (environment·policies + policy)·replications + replication, all from 0.
//
// Blocks of eight replications of one environment and one policy stay together; they are put in the order block,
// environment, policy, and this sequence is cut into n runs of equal length. So a part has whole blocks with all their
// environments and policies as far as that goes, and of each pair of environment and policy as many blocks as any other
// part, or one more. Where the largest part would have more than 1.25 times the mean the blocks are halved, down to
// single cells. A part is empty where there are more parts than cells. The layout depends on the arguments only.
func Layout(environments, policies, replications, n int) []int32 {
	cells := environments * policies * replications
	owner := make([]int32, cells)
	sizes := make([]int, n)
	for _, width := range widths {
		clear(sizes)
		seen := 0
		for from := 0; from < replications; from += width {
			to := min(from+width, replications)
			for pair := range environments * policies {
				middle := 2*seen + to - from // twice the middle of the block in the sequence
				part := min(n-1, int(int64(middle)*int64(n)/int64(2*cells)))
				for r := from; r < to; r++ {
					owner[pair*replications+r] = int32(part + 1)
				}
				sizes[part] += to - from
				seen += to - from
			}
		}
		largest := 0
		for _, s := range sizes {
			largest = max(largest, s)
		}
		if int64(4*largest)*int64(n) <= 5*int64(cells) {
			break
		}
	}
	return owner
}
