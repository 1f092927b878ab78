package model_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"troupe/serve/model"
)

// A configuration is read strictly, filled in, checked, and compiled.
func ExampleConfig_Admit() {
	var config model.Config
	text := `{"id": "news", "dim": 3, "floor": 0.02, "reward": {"min": 0, "max": 1, "window": "1h"}}`
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		panic(err)
	}
	compiled, err := config.Admit(model.DefaultLimits)
	if err != nil {
		panic(err)
	}
	fmt.Printf("d = %d, floor %d/%d\n", compiled.Dim, compiled.FloorNum, compiled.FloorDen)

	config.Reward.Rule = "average"
	var refused *model.Error
	if _, err := config.Admit(model.DefaultLimits); errors.As(err, &refused) {
		fmt.Println(refused.Field, "is", refused.Value+",", refused.Want)
	}
	// Output:
	// d = 3, floor 1/50
	// config.reward.rule is average, expected first, sum or last
}
