shared |User city=a
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=b
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=c
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=b
|Item id=0
1:-1:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=a
0:-1:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=c
0:-1:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=c
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=b
|Item id=0
1:-1:0.3333 |Item id=1
|Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
1:-1:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=b
|Item id=0
1:-1:0.3333 |Item id=1
|Item id=2

shared |User city=b
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=b
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=c
|Item id=0
|Item id=1
2:-1:0.3333 |Item id=2

shared |User city=b
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=c
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=a
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=b
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=b
0:-1:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=c
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=b
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=a
|Item id=0
1:-1:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=b
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=b
|Item id=0
1:-1:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=c
|Item id=0
|Item id=1
2:-1:0.3333 |Item id=2

shared |User city=c
|Item id=0
|Item id=1
2:-1:0.3333 |Item id=2

shared |User city=c
|Item id=0
|Item id=1
2:-1:0.3333 |Item id=2

shared |User city=b
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=b
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=c
|Item id=0
|Item id=1
2:-1:0.3333 |Item id=2

shared |User city=c
|Item id=0
|Item id=1
2:-1:0.3333 |Item id=2

shared |User city=b
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=c
|Item id=0
|Item id=1
2:-1:0.3333 |Item id=2

shared |User city=b
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=c
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=b
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=c
|Item id=0
|Item id=1
2:-1:0.3333 |Item id=2

shared |User city=b
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=b
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=b
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=a
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=c
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
|Item id=1
2:0:0.3333 |Item id=2

shared |User city=c
0:-1:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=b
|Item id=0
1:-1:0.3333 |Item id=1
|Item id=2

shared |User city=a
|Item id=0
1:0:0.3333 |Item id=1
|Item id=2

shared |User city=a
0:-1:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=c
0:0:0.3333 |Item id=0
|Item id=1
|Item id=2

shared |User city=b
|Item id=0
1:-1:0.3333 |Item id=1
|Item id=2

