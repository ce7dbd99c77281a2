"""Questions unrelated to all worlds: everyday matters, and work of other trades."""

from __future__ import annotations

from engram_bench.advice.kinds import lines

EVERYDAY = lines(
    """
    bake a chocolate cake
    the sourdough starter smells of acetone
    my tomato plants have yellow leaves
    how do I get red wine out of a white shirt
    cat scratches the sofa
    bicycle chain keeps falling off
    learn to play the ukulele
    what to wear to a wedding in June
    the soup is too salty
    squeaky floorboard in the bedroom
    teach the dog to come when called
    choose a birthday present for grandmother
    hiccups that do not stop
    fold a paper crane
    baby wakes up every two hours
    shower drain is clogged with hair
    remove chewing gum from a carpet
    plan a picnic by the lake
    the bread did not rise
    how long to boil an egg
    sunburn on the shoulders
    grow basil on the windowsill
    candle wax on the table cloth
    which wood for a garden bench
    wasps nest under the roof
    knit a scarf for the winter
    tyre flat on the way to grandma
    pack for a week of hiking
    a name for the new kitten
    lawn is full of moss
    pancakes stick to the pan
    what to cook with leftover rice
    the neighbour's hedge is too high
    build a snowman that lasts
    sore throat since yesterday
    paint the living room ceiling
    zip of the jacket is stuck
    onions make me cry
    mosquito bites itch
    sharpen a kitchen knife
    stale smell in the wardrobe
    put a toddler to bed
    the houseplant droops after watering
    clean the grill after a barbecue
    write a poem for my sister
    sleep better in summer
    find the north star
    how to whistle with two fingers
    polish leather boots
    start jogging at fifty
    carve a pumpkin
    cut my own fringe
    make a bow tie knot
    ice on the windscreen
    jam does not set
    old photographs stick together
    aquarium water is green
    """
)
"""Everyday matters."""

TRADES = lines(
    """
    sheep with foot rot on the upper pasture
    wheat shows rust after the rain in May
    beehive lost its queen
    combine harvester loses grain at the sieve
    calf does not drink from the bucket
    grape must stops fermenting at 4 Baumé
    soufflé collapses in the pass
    oboe reed closes in cold halls
    soprano is hoarse before the premiere
    kiln cracked the glaze of the vases
    mortar does not bind at three degrees
    roof tiles lifted after the storm
    crane foundation settles unevenly
    tunnel face leaks at ring 212
    bridge bearing is corroded
    trawler net tore on the reef
    salmon have sea lice in pen four
    helicopter autorotation training in gusts
    glider did not reach the airfield
    telescope mirror shows astigmatism
    comet ephemeris off by two arc seconds
    chess opening against the Caro-Kann
    goalkeeper dives too early at penalties
    marathon runner cramps at kilometre 35
    horse refuses the water jump
    violin bridge warps
    fresco flakes off in the north chapel
    gilding does not hold on the frame
    parchment curls in the showcase
    dinosaur bone crumbles when uncovered
    seismic trace with ghost reflections
    drill bit stuck at 1,400 metres
    glacier stake measurement lost under snow
    perfume base note too heavy
    wool shrinks in the dye bath
    loom breaks warp threads
    watch balance wheel loses five seconds
    gemstone has an inclusion near the table
    tattoo ink fades in red
    tailor the sleeve of a tailcoat
    lighthouse lens rotates too slowly
    parachute canopy opens with line twists
    beekeeping smoker goes out
    avalanche warning on the west slope
    umpire calls a no-ball
    """
)
"""Work of trades that no world is about."""

QUESTIONS = (*EVERYDAY, *TRADES)
