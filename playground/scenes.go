package playground

// Scene is a guided game: a state to begin with, and rounds at which there is something to see.
type Scene struct {
	Name  string // in addresses and file names
	Short string // a few words for a button
	Title string
	Text  string
	Link  string // the state at its first mark
	Marks []Mark
	// Picture is the mark of the still picture, for browsers that cannot run the game.
	Picture int
}

// Mark is a round of a scene, a policy to look at, and what is to be seen there.
type Mark struct {
	Round, Look int // Look counts from 0
	Text        string
}

// Scenes are the guided games of the page, in order. TestScenes holds what they say.
var Scenes = []Scene{
	{
		Name: "greedy", Short: "Greedy", Title: "Why greedy fails",
		Text: "Greedy always plays the arm that looks best. A few bad rewards of the best arm are enough: it " +
			"is not played again, so nothing corrects the estimate.",
		Link:    "seed=10&theta=0.6,0.5&arms=5&sigma=1&rounds=500&p=greedy&p=ensemble,m=16&p=ts&p=linucb",
		Picture: 2,
		Marks: []Mark{
			{1, 0, "Nothing is known. The estimate θ̂ is 0 and every arm has score 0, so greedy takes arm 1."},
			{10, 1, "The ensemble has members on all sides. Most of its 32 models choose the best arm by now, and 5 still choose others."},
			{60, 0, "Greedy has played arm 5 since round 2, which is not the best. The confidence ellipse is " +
				"long: across its arm it knows little."},
			{500, 0, "Greedy pays the same regret in every round. Of the seeds 1 to 12 it loses more than the " +
				"ensemble with 7, 9 and 10, and less with the other nine, where it is lucky."},
			{500, 1, "The ensemble has found the best arm, and its line is flat."},
		},
	},
	{
		Name: "posterior", Short: "Posterior", Title: "Members as a posterior",
		Text: "Each member is a regression on rewards with noise of its own. Its distance from θ̂ says how " +
			"uncertain θ̂ is in that direction, and the mirror image makes the spread symmetric.",
		Link:    "seed=12&theta=0.5,0.6&arms=6&sigma=1&rounds=600&p=ensemble,m=64&p=ts",
		Picture: 1,
		Marks: []Mark{
			{1, 0, "Before the first reward the members stand around 0 on all sides, and every arm has some that choose it."},
			{15, 0, "A model has the colour of the arm that it chooses. The share of the models that choose an " +
				"arm is its probability, exactly."},
			{15, 1, "Thompson sampling draws from the normal law whose ellipse is drawn with a full line. The " +
				"cloud of the ensemble has that shape."},
			{600, 0, "The cloud has shrunk with the ellipse, and 127 of 128 models choose the best arm."},
		},
	},
	{
		Name: "few", Short: "Few members", Title: "Fewer members than dimensions, on the disc",
		Text: "One member and its mirror image span a line. When every direction is allowed, the policy " +
			"plays directions of that line alone, and never looks across.",
		Link:    "seed=10&theta=0.6,0.5&arms=0&sigma=0.5&rounds=500&p=ensemble,m=1&p=ensemble,m=16&p=ts",
		Picture: 1,
		Marks: []Mark{
			{1, 0, "One member and its mirror image: two directions, opposite to each other."},
			{60, 0, "The estimate and both models are on the line of the first action, and θ* is not. Drag θ*: " +
				"the estimate stays on the line."},
			{60, 1, "Sixteen members surround their estimate, and see every direction."},
			{111, 0, "In real arithmetic it would stay on the line for ever. A computer rounds: what is off the " +
				"line grows, and from here on it leaves. With the seeds 1 to 12 that takes 24 to 234 rounds. " +
				"Reports of troupe draw no verdict from such runs."},
			{500, 0, "Most of its regret is from the rounds on the line."},
		},
	},
	{
		Name: "sigma", Short: "Wrong σ", Title: "A wrong σ",
		Text: "The scale of the members should be the size of the noise. Three ensembles play on the same " +
			"noise, σ = 1: one believes 0.1, one the right size, one 10.",
		Link:    "seed=4&theta=0.6,0.5&arms=8&sigma=1&rounds=1000&p=ensemble,m=16,scale=0.1&p=ensemble,m=16&p=ensemble,m=16,scale=10",
		Picture: 1,
		Marks: []Mark{
			{30, 0, "Too small: the members crowd around θ̂, and all 32 models choose the same arm."},
			{30, 2, "Too large: the members are far from θ̂, and no arm has more than half of the models."},
			{1000, 0, "With this seed the small scale is stuck with a wrong arm. Of the seeds 1 to 12 it loses " +
				"more than the right scale with 4, 9 and 11, and less with the other nine: it is a risk, not a " +
				"certain loss."},
			{1000, 2, "The large scale has not stopped exploring: 9 of its 32 models choose the best arm."},
			{1000, 1, "The right scale pays least here."},
		},
	},
	{
		Name: "change", Short: "Change", Title: "Change and restarts",
		Text: "From round 300 on θ* is another one. A regression that never forgets has to outvote 300 " +
			"rounds of old rewards. Restarts keep copies that began at different times, and weigh them by how " +
			"well they predict.",
		Link: "seed=4&theta=0.7,0.3&from=300&later=-0.5,0.5&arms=6&sigma=0.5&rounds=800&p=atoms,m=8&" +
			"p=atoms,m=8,change=restarts&p=linucb,scale=0.5&p=linucb,scale=0.5,change=restarts",
		Picture: 2,
		Marks: []Mark{
			{299, 0, "The world has not changed yet. All four play the best arm."},
			{330, 0, "Thirty rounds after the change: θ̂ is still near the old place, and the old arm is played."},
			{330, 1, "With restarts a copy that began late predicts better, takes over and goes to the new place."},
			{800, 0, "Without restarts most of the regret comes after the change."},
			{800, 3, "LinUCB with restarts. What is not played is not seen: where an arm that looked bad " +
				"becomes the best, nothing is noticed."},
		},
	},
}

// State returns the state of a scene at one of its marks.
func (s Scene) State(mark int) State {
	state, err := ParseLink(s.Link)
	if err != nil {
		panic("playground: scene " + s.Name + ": " + err.Error())
	}
	state.At, state.Look = s.Marks[mark].Round, s.Marks[mark].Look
	return state
}
