<?php
// Reads lines "SEED SKIP COUNT exact" or "SEED SKIP COUNT range MIN MAX" and writes the outputs of mt_rand, a line each.
if (($argv[1] ?? '') === '--version') {
    echo 'PHP ', PHP_VERSION, "\n";
    exit;
}
while (($line = fgets(STDIN)) !== false) {
    $job = explode(' ', trim($line));
    [$seed, $skip, $count] = array_map('intval', $job);
    mt_srand($seed);
    $draw = $job[3] === 'exact' ? fn() => mt_rand() : fn() => mt_rand((int) $job[4], (int) $job[5]);
    for ($i = 0; $i < $skip; $i++) {
        $draw();
    }
    $draws = [];
    for ($i = 0; $i < $count; $i++) {
        $draws[] = $draw();
    }
    echo implode(' ', $draws), "\n";
}
