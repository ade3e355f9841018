; Key rooms: sixteen rooms, doors between them, some of them locked, keys that open one each, a chest in the last room.
; A cartridge of 32 KiB without banks. The same buttons lead to the same game, always: nothing in it is chance.
;
; Defined by who assembles it: BUSY, work per frame as other games have it; CGB, the flag of the header ($00, $80);
; SOUND_WAIT, not 0 where the way through a door is to wait for the end of a tone.

; What can be read from outside, in the order of ram.yaml.
room_x          equ $c000
room_y          equ $c001
px              equ $c002       ; left edge of the player, in pixels
py              equ $c003
keys            equ $c004       ; in hand
taken           equ $c005       ; ever picked up
opened          equ $c006       ; doors unlocked
seen            equ $c007       ; rooms ever entered
goal            equ $c008       ; 1 once the chest is open
paused          equ $c009
frames          equ $c00a       ; low byte first
tile_x          equ $c00c       ; where the middle of the player is, in tiles of 16 pixels
tile_y          equ $c00d
exits           equ $c020       ; of each room: which sides lead on, and above that which of these are locked
items           equ $c030       ; of each room
visited         equ $c040       ; of each room

pad             equ $c010
fresh           equ $c011       ; buttons that were not down a frame before
redraw          equ $c012

NORTH           equ 1
EAST            equ 2
SOUTH           equ 4
WEST            equ 8
LOCKED          equ 16          ; times a side
NOTHING         equ 0
KEY             equ 1
CHEST           equ 2
OPEN_CHEST      equ 3

LEFT            equ 8           ; as far as walls let the player go
RIGHT           equ 144
TOP             equ 8
BOTTOM          equ 128
BEYOND          equ 6           ; pixels into a doorway
MIDDLE_X        equ 76
MIDDLE_Y        equ 68
NEAR            equ 10
GAP_X           equ 66          ; doorways are that far from the edge,
GAP_Y           equ 58
GAP             equ 17          ; and so wide: in any game of two pixels a frame and steps of eight one gets through

rP1             equ $ff00
rNR10           equ $ff10
rNR52           equ $ff26
rLCDC           equ $ff40
rLY             equ $ff44
rBGP            equ $ff47
rOBP0           equ $ff48
rIE             equ $ffff
SCREEN          equ $9800
OAM             equ $fe00

FLOOR           equ 0
WALL            equ 1
DOOR            equ 2
ITEM            equ 2           ; and the kind of it: 3 a key, 4 a chest, 5 an open one
PLAYER          equ 6
MARK            equ 7

                org $0040       ; the screen was drawn: go on from halt
                reti

                org $0100
                nop
                jp start

                org $0134
                db "KEYROOMS"
                ds 7, 0
                db CGB
                db "00", 0, 0, 0, 0, 1, $33, 0

                org $0150
start:          di
                ld sp, $fffe
                call screen_off
                ld hl, $c000
                ld b, 0
                call clear
                ld hl, OAM
                ld b, 160
                call clear
                ld hl, map
                ld de, exits
                ld b, 32        ; exits, then items
                call copy
                ld hl, tiles
                ld de, $8000
                ld b, tiles_end - tiles
                call copy
                ld a, %11100100
                ldh [rBGP], a
                ldh [rOBP0], a
                ld a, MIDDLE_X
                ld [px], a
                ld a, MIDDLE_Y
                ld [py], a
                call enter
                call locate
                call draw
                ld a, 1
                ldh [rIE], a
                ei
main:           halt
                nop
                call read_pad
                call count
                call update
                call locate
                call show
                ld a, [redraw]
                or a
                call nz, draw
                call work
                jr main

; ---- What a frame does

read_pad:       ld a, $20
                ldh [rP1], a
                ldh a, [rP1]
                ldh a, [rP1]
                cpl
                and $0f
                swap a
                ld b, a
                ld a, $10
                ldh [rP1], a
                ldh a, [rP1]
                ldh a, [rP1]
                ldh a, [rP1]
                ldh a, [rP1]
                cpl
                and $0f
                or b
                ld b, a         ; A, B, SELECT, START, RIGHT, LEFT, UP, DOWN, from bit 0 on
                ld a, [pad]
                cpl
                and b
                ld [fresh], a
                ld a, b
                ld [pad], a
                ld a, $30
                ldh [rP1], a
                ret

count:          ld hl, frames
                inc [hl]
                ret nz
                inc hl
                inc [hl]
                ret

update:         ld a, [fresh]
                bit 3, a
                jr z, .go_on
                ld a, [paused]
                xor 1
                ld [paused], a
.go_on:         ld a, [paused]
                or a
                ret nz
                ld a, [pad]
                bit 4, a
                call nz, go_east
                ld a, [pad]
                bit 5, a
                call nz, go_west
                ld a, [pad]
                bit 6, a
                call nz, go_north
                ld a, [pad]
                bit 7, a
                call nz, go_south
                jp touch

go_east:        ld a, [px]
                cp RIGHT
                jr c, .step
                ld b, EAST
                call door_across
                ret z
                ld a, [px]
.step:          add 2
                ld [px], a
                cp RIGHT + BEYOND
                ret c
                ld a, LEFT
                ld [px], a
                ld hl, room_x
                inc [hl]
                jp enter

go_west:        ld a, [px]
                cp LEFT + 1
                jr nc, .step
                ld b, WEST
                call door_across
                ret z
                ld a, [px]
.step:          sub 2
                ld [px], a
                cp LEFT - BEYOND + 1
                ret nc
                ld a, RIGHT
                ld [px], a
                ld hl, room_x
                dec [hl]
                jp enter

go_south:       ld a, [py]
                cp BOTTOM
                jr c, .step
                ld b, SOUTH
                call door_along
                ret z
                ld a, [py]
.step:          add 2
                ld [py], a
                cp BOTTOM + BEYOND
                ret c
                ld a, TOP
                ld [py], a
                ld hl, room_y
                inc [hl]
                jp enter

go_north:       ld a, [py]
                cp TOP + 1
                jr nc, .step
                ld b, NORTH
                call door_along
                ret z
                ld a, [py]
.step:          sub 2
                ld [py], a
                cp TOP - BEYOND + 1
                ret nc
                ld a, BOTTOM
                ld [py], a
                ld hl, room_y
                dec [hl]
                jp enter

; Can the player leave on side b? Z: no. A locked door takes a key.
door_across:    ld a, [py]
                sub GAP_Y
                jr door
door_along:     ld a, [px]
                sub GAP_X
door:           cp GAP
                jr nc, .wall
                ld hl, exits
                call of_room
                ld a, [hl]
                and b
                ret z
                ld a, b
                swap a
                ld c, a
                and [hl]
                jr z, .open
                ld a, [keys]
                or a
                ret z
                dec a
                ld [keys], a
                ld a, c
                cpl
                and [hl]
                ld [hl], a
                ld hl, opened
                inc [hl]
                ld a, 1
                ld [redraw], a
.open:          or 1
                ret
.wall:          xor a
                ret

; The player is in another room.
enter:          ld a, 1
                ld [redraw], a
                ld hl, visited
                call of_room
                ld a, [hl]
                or a
                jr nz, .known
                ld [hl], 1
                ld hl, seen
                inc [hl]
.known:         ld a, SOUND_WAIT
                or a
                ret z
tone:           ld a, $80
                ldh [rNR52], a
                ld a, $00
                ldh [rNR10], a
                ld a, $bf       ; as short as it gets
                ldh [rNR10 + 1], a
                ld a, $f0
                ldh [rNR10 + 2], a
                ld a, $00
                ldh [rNR10 + 3], a
                ld a, $c7       ; begin, and end by itself
                ldh [rNR10 + 4], a
.sounds:        ldh a, [rNR52]
                bit 0, a
                jr nz, .sounds
                ret

; Is there something to take, or to open?
touch:          ld hl, items
                call of_room
                ld a, [hl]
                or a
                ret z
                ld c, a
                ld a, [px]
                sub MIDDLE_X - NEAR
                cp 2 * NEAR + 1
                ret nc
                ld a, [py]
                sub MIDDLE_Y - NEAR
                cp 2 * NEAR + 1
                ret nc
                ld a, c
                cp KEY
                jr z, .key
                cp CHEST
                ret nz
                ld a, [fresh]
                bit 0, a
                ret z
                ld [hl], OPEN_CHEST
                ld a, 1
                ld [goal], a
                ld [redraw], a
                ret
.key:           ld [hl], NOTHING
                ld hl, keys
                inc [hl]
                inc hl          ; taken
                inc [hl]
                ld a, 1
                ld [redraw], a
                ret

locate:         ld hl, tile_x
                ld a, [px]
                call .tile
                ld a, [py]
.tile:          add 4
                swap a
                and $0f
                ld [hl+], a
                ret

; hl = hl + number of the room
of_room:        ld a, [room_y]
                add a
                add a
                ld e, a
                ld a, [room_x]
                add e
                ld e, a
                ld d, 0
                add hl, de
                ret

work:           ld bc, BUSY
.more:          ld a, b
                or c
                ret z
                dec bc
                jr .more

; ---- What is seen

show:           ld hl, OAM
                ld a, [py]
                add 16
                ld [hl+], a
                ld a, [px]
                add 8
                ld [hl+], a
                ld a, PLAYER
                ld [hl+], a
                xor a
                ld [hl], a
                ret

draw:           call screen_off
                xor a
                ld [redraw], a
                ld hl, SCREEN   ; walls above and below, walls left and right
                ld c, WALL
                call line
                ld b, 16
.row:           push bc
                ld a, WALL
                ld [hl+], a
                ld b, 18
                ld a, FLOOR
                call fill
                ld a, WALL
                ld [hl+], a
                ld de, 12
                add hl, de
                pop bc
                dec b
                jr nz, .row
                ld c, WALL
                call line
                call draw_doors
                call draw_item
                call draw_marks
                call show
                ld a, %10010011
                ldh [rLCDC], a
                ret

draw_doors:     ld hl, exits
                call of_room
                ld b, [hl]
                ld hl, SCREEN + 8
                ld de, 1
                bit 0, b
                ld c, LOCKED * NORTH
                call nz, doorway
                ld hl, SCREEN + 7 * 32 + 19
                ld de, 32
                bit 1, b
                ld c, LOCKED * EAST
                call nz, doorway
                ld hl, SCREEN + 17 * 32 + 8
                ld de, 1
                bit 2, b
                ld c, LOCKED * SOUTH
                call nz, doorway
                ld hl, SCREEN + 7 * 32
                ld de, 32
                bit 3, b
                ld c, LOCKED * WEST
                call nz, doorway
                ret

; Four tiles from hl on, de apart: floor, or a door where b has the lock c.
doorway:        ld a, b
                and c
                ld a, FLOOR
                jr z, .open
                ld a, DOOR
.open:          ld [hl], a
                add hl, de
                ld [hl], a
                add hl, de
                ld [hl], a
                add hl, de
                ld [hl], a
                ret

draw_item:      ld hl, items
                call of_room
                ld a, [hl]
                or a
                ret z
                add ITEM
                ld [SCREEN + 9 * 32 + 10], a
                ret

; As many marks as the number of the column, and of the row: rooms look different.
draw_marks:     ld hl, SCREEN + 2 * 32 + 2
                ld a, [room_x]
                inc a
                ld b, a
                ld a, MARK
                call fill
                ld hl, SCREEN + 4 * 32 + 2
                ld a, [room_y]
                inc a
                ld b, a
                ld a, MARK
; b times a
fill:           ld [hl+], a
                dec b
                jr nz, fill
                ret

; A line of tile c, and on to the next.
line:           ld b, 20
                ld a, c
                call fill
                ld de, 12
                add hl, de
                ret

; Only between two pictures may it be turned off.
screen_off:     ldh a, [rLCDC]
                bit 7, a
                ret z
.wait:          ldh a, [rLY]
                cp 144
                jr c, .wait
                xor a
                ldh [rLCDC], a
                ret

; b bytes, 0 for 256
clear:          xor a
.next:          ld [hl+], a
                dec b
                jr nz, .next
                ret

copy:           ld a, [hl+]
                ld [de], a
                inc de
                dec b
                jr nz, copy
                ret

; ---- The game itself

; One way, back and forth through all rooms; a key lies two rooms before each lock.
map:            db EAST, EAST + WEST, EAST + WEST, WEST + SOUTH * (1 + LOCKED)
                db EAST + SOUTH * (1 + LOCKED), EAST + WEST, EAST + WEST, NORTH + WEST
                db NORTH + EAST, EAST + WEST, EAST + WEST, WEST + SOUTH * (1 + LOCKED)
                db EAST, EAST + WEST * (1 + LOCKED), EAST + WEST, NORTH + WEST

                db NOTHING, NOTHING, KEY, NOTHING
                db NOTHING, KEY, NOTHING, NOTHING
                db NOTHING, NOTHING, KEY, NOTHING
                db CHEST, NOTHING, NOTHING, KEY

tiles:          dw $0000, $0000, $0000, $0000, $0000, $0000, $1000, $0000       ; floor
                dw $ffff, $81ff, $bdff, $a5ff, $a5ff, $bdff, $81ff, $ffff       ; wall
                dw $ffff, $ff81, $ff81, $e781, $e781, $ff81, $ff81, $ffff       ; door
                dw $0000, $3c3c, $2424, $3c3c, $0808, $0e0e, $0808, $0e0e       ; key
                dw $0000, $7e7e, $427e, $7e7e, $5a7e, $427e, $7e7e, $0000       ; chest
                dw $7e7e, $4242, $7e7e, $427e, $427e, $427e, $7e7e, $0000       ; chest, open
                dw $3c3c, $7e42, $ff81, $dba5, $ff81, $bd99, $7e42, $3c3c       ; player
                dw $0000, $183c, $3c7e, $7eff, $7eff, $3c7e, $183c, $0000       ; mark
tiles_end:
